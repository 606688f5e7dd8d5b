// journal: see journal.h.
#include "faults/crash_states/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"

namespace shardproof::crash {
namespace {

using Kind = Operation::Kind;

std::string_view kind_name(Kind kind) {
  constexpr std::string_view names[] = {"make_directory", "create",     "write",
                                        "sync",           "close",      "sync_directory",
                                        "link",           "remove",     "remove_directory",
                                        "settle",         "crash_from", "promise",
                                        "release"};
  return names[static_cast<std::size_t>(kind)];
}

// A nonce of 16 hex digits, other in every attempt, is printed as '#'.
std::string without_nonce(const std::string& path) {
  std::string out;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find_first_not_of("0123456789abcdef", at), path.size());
    if (end - at == 16 && at > 0 && path[at - 1] == '-') {
      out += '#';
      at = end;
    } else {
      out += path[at++];
    }
  }
  return out;
}

class RecordedStorage : public ForwardingStorage {
 public:
  RecordedStorage(std::shared_ptr<Storage> inner, std::shared_ptr<Journal> journal, int rank,
                  const std::atomic<int>* epoch)
      : ForwardingStorage(std::move(inner)),
        journal_(std::move(journal)),
        rank_(rank),
        epoch_(epoch) {}

  std::unique_ptr<File> create(const std::string& path) override {
    std::unique_ptr<File> file;
    Operation operation = make(Kind::create, path);
    operation.file = journal_->new_file();
    const int number = operation.file;
    step(std::move(operation), [&] { file = inner().create(path); });
    return std::make_unique<RecordedFile>(*this, path, number, std::move(file));
  }
  void make_directory(const std::string& path) override {
    step(make(Kind::make_directory, path), [&] { inner().make_directory(path); });
  }
  void sync_directory(const std::string& path) override {
    step(make(Kind::sync_directory, path), [&] { inner().sync_directory(path); });
  }
  void link(const std::string& from, const std::string& to) override {
    Operation operation = make(Kind::link, from);
    operation.to = to;
    step(std::move(operation), [&] { inner().link(from, to); });
  }
  void remove(const std::string& path) override {
    step(make(Kind::remove, path), [&] { inner().remove(path); });
  }
  void remove_directory(const std::string& path) override {
    step(make(Kind::remove_directory, path), [&] { inner().remove_directory(path); });
  }

 private:
  class RecordedFile : public File {
   public:
    RecordedFile(RecordedStorage& owner, std::string path, int number, std::unique_ptr<File> file)
        : owner_(owner), path_(std::move(path)), number_(number), file_(std::move(file)) {}
    void write(std::span<const std::byte> bytes) override {
      Operation operation = make(Kind::write);
      operation.bytes.assign(bytes.begin(), bytes.end());
      owner_.step(
          std::move(operation), [&] { file_->write(bytes); },
          [&] { file_->write(bytes.first(bytes.size() / 2)); });
    }
    void sync() override {
      owner_.step(make(Kind::sync), [&] { file_->sync(); });
    }
    void close() override {
      owner_.step(make(Kind::close), [&] { file_->close(); });
    }

   private:
    Operation make(Kind kind) const {
      Operation operation = owner_.make(kind, path_);
      operation.file = number_;
      return operation;
    }

    RecordedStorage& owner_;
    std::string path_;
    int number_;
    std::unique_ptr<File> file_;
  };

  Operation make(Kind kind, const std::string& path) const {
    Operation operation;
    operation.kind = kind;
    operation.path = path;
    operation.rank = rank_;
    operation.number = journal_->next_number(rank_);
    operation.epoch = journal_->epoch() + (epoch_ != nullptr ? epoch_->load() : 0);
    return operation;
  }

  void step(Operation operation, const std::function<void()>& whole,
            const std::function<void()>& half = {}) {
    const Do what = journal_->ask(operation);
    const Error error(ErrorKind::io,
                      fmt::format("{} {}", kind_name(operation.kind), operation.path),
                      "Input/output error");
    if (what == Do::fail || (what == Do::half && !half)) throw error;
    if (what == Do::half) {
      operation.bytes.resize(operation.bytes.size() / 2);
      journal_->carry_out(std::move(operation), half);
    } else if (what == Do::it || what == Do::then_fail) {
      journal_->carry_out(std::move(operation), whole);
    }
    if (what == Do::then_fail) throw error;
  }

  std::shared_ptr<Journal> journal_;
  int rank_;
  const std::atomic<int>* epoch_;
};

}  // namespace

std::string Operation::label() const {
  const std::string target = to.empty() ? "" : " to " + without_nonce(to);
  return fmt::format("{} {}{}", kind_name(kind), path.empty() ? "/" : without_nonce(path), target);
}

void Journal::carry_out(Operation operation, const std::function<void()>& action) {
  const std::scoped_lock lock(mutex_);
  action();
  operations_.push_back(std::move(operation));
}

void Journal::note(Operation::Kind kind, const std::string& path) {
  Operation operation;
  operation.kind = kind;
  operation.path = path;
  operation.epoch = epoch_;
  const std::scoped_lock lock(mutex_);
  operations_.push_back(std::move(operation));
}

int Journal::next_number(int rank) {
  const std::scoped_lock lock(mutex_);
  numbers_.resize(std::max(numbers_.size(), static_cast<std::size_t>(rank) + 1));
  return numbers_[static_cast<std::size_t>(rank)]++;
}

std::vector<Operation> Journal::operations() const {
  const std::scoped_lock lock(mutex_);
  return operations_;
}

std::unique_ptr<Storage> recorded(std::shared_ptr<Storage> inner, std::shared_ptr<Journal> journal,
                                  int rank, const std::atomic<int>* epoch) {
  return std::make_unique<RecordedStorage>(std::move(inner), std::move(journal), rank, epoch);
}

std::vector<Operation> ordered(std::vector<Operation> operations, RankOrder order) {
  // How many operations of its epoch the rank has done before: the turn of each.
  std::map<std::pair<int, int>, int> turns;
  std::vector<std::tuple<int, int, int, std::size_t>> keys;  // epoch, then as asked, then where
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    const int turn = order == RankOrder::turns ? turns[{operation.epoch, operation.rank}]++ : 0;
    keys.emplace_back(operation.epoch, turn,
                      order == RankOrder::descending ? -operation.rank : operation.rank, i);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<Operation> out;
  for (const auto& key : keys) out.push_back(std::move(operations[std::get<3>(key)]));
  return out;
}

}  // namespace shardproof::crash
