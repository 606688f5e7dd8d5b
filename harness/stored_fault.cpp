// stored_fault: a manifest is read, changed and written again under its name.
#include "harness/stored_fault.h"

#include <span>

#include "base/digest.h"
#include "checkpoint/load.h"
#include "checkpoint/manifest.h"
#include "faults/inject/impossible_fault.h"

namespace shardproof {

bool changes_manifest(FaultKind kind) {
  return kind == FaultKind::other_cursor || kind == FaultKind::other_mixture ||
         kind == FaultKind::other_tokenizer;
}

void change_manifest(Storage& storage, const std::string& id, FaultKind kind) {
  Manifest manifest = read_manifest(storage, id);
  if (kind == FaultKind::other_tokenizer) {
    manifest.facts.tokenizer_digest = sha256(std::string("another tokenizer")).hex();
  } else if (kind == FaultKind::other_mixture) {
    if (!manifest.facts.cursor.contains("sources")) {
      throw impossible_fault("other_mixture", "the Case has no data.sources");
    }
    Json& weight = manifest.facts.cursor["sources"][0]["weight"];
    weight = weight.get<double>() * 2;
    manifest.facts.config["data"]["sources"][0]["weight"] = weight;
  } else {
    Json& at = manifest.facts.cursor[manifest.facts.cursor.contains("taken") ? "taken" : "samples"];
    at = at.get<std::int64_t>() + 1;
  }
  const std::string path = manifest_path(id), text = manifest.print();
  storage.remove(path);
  const auto file = storage.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->close();
}

}  // namespace shardproof
