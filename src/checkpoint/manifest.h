// manifest: what a checkpoint is. ROOT/<id>.manifest.json is the commit point; shards lie in
// ROOT/<id>.shards-<nonce>/rank_00000.safetensors. An entry is a run of whole blocks of a piece
// with file, byte range and SHA-256 per block; the manifest also holds everything that is not a
// tensor. Digests: piece digest = SHA-256 over its block digests; state digest = SHA-256 over the
// sorted (name, piece, dtype, shape, piece digest): the same whichever layout wrote it. A file is
// its head (what is before the first tensor) and its blocks, end to end, each with a digest of its
// own, so that every byte is hashed once; file digest = SHA-256 over the head's digest and those of
// the blocks, as bytes, in the order of the file. The text ends in a SHA-256 of all that stands
// before it. Parsing distrusts: unknown schema, missing, unknown or duplicate keys, paths that
// leave the root, duplicate entries, overlapping or out-of-range blocks, holes, bytes of a file
// without a digest, shapes that overflow are Error corrupt (or refused) naming the entry, before
// any allocation of the claimed size. Not checked here: that the files are there and hold what the
// manifest says, their digests included (verify_checkpoint). Thread rule: values. Torch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/json.h"
#include "base/piece.h"

namespace shardproof {

struct ManifestEntry {
  std::string name;  // parameter
  std::string what;  // "param" | "exp_avg" | "exp_avg_sq" | "master"
  int piece = 0;
  int pieces = 1;
  Shape global_shape;
  Box box;  // of the piece
  Dtype dtype = Dtype::f32;
  ElementRange range;       // within the piece, block-aligned
  std::string file;         // relative to the root
  std::string tensor;       // its key in the safetensors file
  std::uint64_t begin = 0;  // bytes in the file (absolute), end exclusive
  std::uint64_t end = 0;
  std::vector<Digest> blocks;  // one per block of the range

  std::string label() const;  // "blocks.0.attn.q.weight/exp_avg piece 1 [0:1024]"
  std::string key() const;    // what `tensor` must be: "blocks.0.attn.q.weight/exp_avg/1/0"
};

// Everything that is not a tensor.
struct CheckpointFacts {
  std::int64_t step = 0;         // the next step
  std::string run_line;          // the Run that wrote it
  Json config = Json::object();  // resolved
  std::string layout;
  Json schedule = Json::object();
  Json cursor = Json::object();  // data cursor
  std::string data_digest;
  std::string tokenizer_digest;
  std::string template_digest;  // of the chat or document template; "none"
  std::string packing;          // "none" | "documents"
  // {"decay": {"parameters": count, "names_sha256": of the names, a line each}, "no_decay": {..}}
  Json parameter_groups = Json::object();
  Json seeds = Json::object();
  Json versions = Json::object();  // code and libraries
  std::string kernel_fingerprint;
  Json origin = Json::object();  // what the run began from, unless from its seeds (train/origin.h)
};

struct ShardFileRef {
  std::string file;
  std::uint64_t bytes = 0;
  std::uint64_t head = 0;  // bytes before the first tensor
  Digest head_sha256;
  Digest digest;  // over head_sha256 and the digests of the blocks
};

// Collects the digest of a file: that of its head first, then those of its blocks.
class FileDigest {
 public:
  void add(const Digest& digest) { list_.update(digest.bytes.data(), digest.bytes.size()); }
  Digest finish() { return list_.finish(); }

 private:
  Sha256 list_;
};

// In place of files and entries: no tensor is kept, the run is computed again from its beginning.
struct SeedsAlone {
  Digest state;         // what must come out: the digest of the state as it was
  std::string attempt;  // of its writer, so that no two attempts write the same text
};

struct Manifest {
  static constexpr int schema = 3;  // another is refused: 2 had digests of whole files
  std::string id;
  CheckpointFacts facts;
  std::optional<SeedsAlone> seeds_alone;  // then there are no files and no entries
  std::vector<ShardFileRef> files;
  std::vector<ManifestEntry> entries;  // sorted by (name, what, piece, range.lo)
  std::string seal;                    // of one that was parsed: the digest that closes its text

  Digest state_digest() const;  // of the entries, or what seeds_alone says
  std::string print() const;    // JSON text
  static Manifest parse(std::string_view text, const std::string& file);
};

// Error refused naming the checkpoint when it keeps seeds alone.
void require_tensors(const Manifest& manifest);

// One path component of at most 128 of [A-Za-z0-9._-], not starting with a dot; Error bad_input.
void check_checkpoint_id(const std::string& id);
std::string step_id(std::int64_t step);  // "step-00000010"
std::string manifest_path(const std::string& id);

// Error corrupt naming the entry unless the entries are sorted, each well-formed, every piece is
// covered without hole or overlap by runs of whole blocks, and the pieces tile their parameter.
void check_entries(const std::vector<ManifestEntry>& entries, const std::string& file);

}  // namespace shardproof
