// journal: what code asked of its storage, in order. A recorded storage carries out each operation
// on an inner storage and writes it down; before each one a hook may let it fail, be left out, be
// done by half or after others: that is how saves are killed, and how syncs are taken away.
// What failed without an effect is not in the journal; reads are not, either.
// Several ranks: operations carry rank and epoch (how many collectives the rank had completed), so
// that orders other than the observed one can be derived; see ordered().
// Thread rule: journal and storages may be used by several ranks' threads at once.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/storage.h"

namespace shardproof::crash {

struct Operation {
  enum class Kind {
    make_directory,
    create,
    write,
    sync,
    close,
    sync_directory,
    link,
    remove,
    remove_directory,
    settle,      // all so far is durable
    crash_from,  // crashes before this are not asked about
    promise,     // the checkpoint named by `path` must be there from here on
    release,     // it need not be any more
  };
  Kind kind = Kind::settle;
  std::string path;
  std::string to;                // of a link
  int file = -1;                 // which file a create, write, sync or close is about
  std::vector<std::byte> bytes;  // of a write
  int rank = 0;
  int number = 0;  // among the operations that the rank asked for, from 0
  int epoch = 0;

  std::string label() const;  // "sync_directory a.shards-#", nonces left out
};

enum class Do {
  it,
  nothing,    // of a sync: say that it succeeded
  half,       // of a write; anything else fails
  fail,       // Error io, no effect
  then_fail,  // Error io, though it was done
};

class Journal {
 public:
  using Hook = std::function<Do(const Operation&)>;

  // Asked before every operation, on the thread that wants it. Set it while nobody is at work.
  void set_hook(Hook hook) { hook_ = std::move(hook); }
  Do ask(const Operation& operation) const { return hook_ ? hook_(operation) : Do::it; }

  // Carries out `action` and writes the operation down, with nobody in between.
  void carry_out(Operation operation, const std::function<void()>& action);
  void note(Operation::Kind kind, const std::string& path = "");
  int new_file() { return files_++; }
  int next_number(int rank);
  int epoch() const { return epoch_; }
  void set_epoch(int epoch) { epoch_ = epoch; }

  std::vector<Operation> operations() const;

 private:
  Hook hook_;
  mutable std::mutex mutex_;
  std::vector<Operation> operations_;
  std::vector<int> numbers_;  // by rank
  std::atomic<int> files_{0};
  std::atomic<int> epoch_{0};
};

// A rank's storage. `epoch` (may be null: the journal's) must outlive it.
std::unique_ptr<Storage> recorded(std::shared_ptr<Storage> inner, std::shared_ptr<Journal> journal,
                                  int rank = 0, const std::atomic<int>* epoch = nullptr);

// Ranks whose operations nothing orders can come in any order. These take epochs as they are and
// the ranks within one epoch ascending, descending, or in turns.
enum class RankOrder { ascending, descending, turns };
std::vector<Operation> ordered(std::vector<Operation> operations, RankOrder order);

}  // namespace shardproof::crash
