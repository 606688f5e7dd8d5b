// windows: samples cut from a token stream: sample i is the T tokens from i x T on, and its targets
// the same moved by one, so each token of the stream but the first is a target at most once, and
// all but the tail exactly once.
// Packed: the stream is a run of documents, cut into rows as before. A row numbers its documents
// from 0; positions restart at each; the target of a document's last token is ignored. A document
// that is cut by a row's end goes on in the next row as a document of its own.
// Thread rule: immutable.
#pragma once

#include <functional>
#include <memory>

#include "data/dataset.h"
#include "data/token_stream.h"

namespace shardproof {

// Whether a document ends with token `index`, which is not the last of the stream.
using DocumentEnd = std::function<bool(const TokenStream&, std::int64_t index)>;

// After the last newline of two or more (a blank line belongs to the document before it).
bool ends_at_blank_line(const TokenStream& stream, std::int64_t index);

struct WindowsConfig {
  int length = 16;
  int vocabulary = 256;
  std::string tokenizer;
  std::string documents;     // how documents end, for the digest
  DocumentEnd document_end;  // null: not packed
};

// Error bad_input when the stream holds less than one sample.
std::shared_ptr<const Dataset> make_windows(TokenStream stream, WindowsConfig config);

}  // namespace shardproof
