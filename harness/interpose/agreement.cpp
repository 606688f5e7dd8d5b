// agreement: fingerprints first; the terms themselves only when those differ.
#include "harness/interpose/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <map>

#include "base/clock.h"

namespace shardproof::interpose {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 32);
}

std::uint64_t mixed(std::uint64_t hash, const std::string& text) {
  for (const char letter : text) hash = mixed(hash, static_cast<unsigned char>(letter));
  return mixed(hash, text.size());
}

std::uint64_t pair_hash(int from, int to, const Signature& what) {
  if (what.length == 0) return 0;
  return mixed(
      mixed(mixed(static_cast<std::uint64_t>(from) + 1, static_cast<std::uint64_t>(to)), what.hash),
      what.length);
}

// Bits that all have, bits that any has, a sum.
void combine(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* from = static_cast<const std::uint64_t*>(in);
  auto* to = static_cast<std::uint64_t*>(inout);
  for (int i = 0; i + 2 < *count; i += 3, from += 3, to += 3) {
    to[0] &= from[0];
    to[1] |= from[1];
    to[2] += from[2];
  }
}

std::string name_of(MPI_Op op) {
  static const std::map<MPI_Op, const char*> names{
      {MPI_SUM, "sum"},        {MPI_MAX, "max"},   {MPI_MIN, "min"},       {MPI_PROD, "prod"},
      {MPI_LAND, "land"},      {MPI_BAND, "band"}, {MPI_LOR, "lor"},       {MPI_BOR, "bor"},
      {MPI_LXOR, "lxor"},      {MPI_BXOR, "bxor"}, {MPI_MAXLOC, "maxloc"}, {MPI_MINLOC, "minloc"},
      {MPI_REPLACE, "replace"}};
  const auto found = names.find(op);
  return found == names.end() ? "of the program" : found->second;
}

// Until `done`, at most so long.
template <typename Done>
bool within(std::chrono::milliseconds limit, const Done& done) {
  const Deadline deadline = Deadline::after(limit);
  while (!done()) {
    if (deadline.expired()) return false;
    sched_yield();
  }
  return true;
}

bool ended(MPI_Request& request) {
  int flag = 0;
  PMPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  return flag != 0;
}

// A text of any length from `source`; nothing within the limit: empty.
std::string receive_text(MPI_Comm comm, int source, int tag, std::chrono::milliseconds limit) {
  MPI_Message message;
  MPI_Status status;
  int there = 0, bytes = 0;
  const bool came = within(limit, [&] {
    PMPI_Improbe(source, tag, comm, &there, &message, &status);
    return there != 0;
  });
  if (!came) return "";
  PMPI_Get_count(&status, MPI_CHAR, &bytes);
  std::string text(static_cast<std::size_t>(bytes), 0);
  PMPI_Mrecv(text.data(), bytes, MPI_CHAR, &message, &status);
  return text;
}

// Of a rank that does not hear from the others, or whose terms differ in no word.
std::string in_words(const Contract& contract) {
  std::string text;
  for (const auto& [field, value] : contract.fields) text += fmt::format(" {} {},", field, value);
  text.back() = ' ';
  return fmt::format("{}sends [{}], expects [{}]", text, fmt::join(contract.sends, " "),
                     fmt::join(contract.receives, " "));
}

void send_text(MPI_Comm comm, const std::string& text, int to, int tag) {
  MPI_Request request;
  PMPI_Isend(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, tag, comm, &request);
  within(std::chrono::seconds(1), [&] { return ended(request); });
}

}  // namespace

MPI_Op make_agreeing_op() {
  MPI_Op op;
  PMPI_Op_create(combine, 1, &op);
  return op;
}

Terms& Terms::field(const char* name, std::string value) {
  contract.fields.emplace_back(name, std::move(value));
  return *this;
}

// The hash tells orders of mixed types apart; words cannot.
Terms& Terms::data(const Signature& same) {
  dtype = same.dtype;
  count = same.length;
  field("dtype", same.dtype.empty() ? "none" : same.dtype);
  field("count", std::to_string(same.length));
  return same.kind == 0 ? field("order of types", fmt::format("{:x}", same.hash)) : *this;
}

Terms& Terms::part(int index, const Signature& same) {
  const std::string words = fmt::format("{} {}", same.length, same.dtype);
  return field(fmt::format("split {}", index).c_str(), same.length == 0 ? "nothing" : words);
}

Terms& Terms::op(MPI_Op op) {
  reduce = name_of(op);
  return field("reduce op", reduce);
}

Terms& Terms::from_root(int rank) {
  root = rank;
  return field("root", std::to_string(rank));
}

Terms& Terms::pairs(int size) {
  contract.sends.assign(static_cast<std::size_t>(size), 0);
  contract.receives.assign(static_cast<std::size_t>(size), 0);
  return *this;
}

Terms& Terms::sends(int self, int to, const Signature& what) {
  contract.sends[static_cast<std::size_t>(to)] = what.length;
  if (to == self) return *this;
  balance += pair_hash(self, to, what);
  if (dtype.empty()) dtype = what.dtype;
  return *this;
}

Terms& Terms::receives(int self, int from, const Signature& what) {
  contract.receives[static_cast<std::size_t>(from)] = what.length;
  if (from == self) return *this;
  balance -= pair_hash(from, self, what);
  if (expected.empty()) expected = what.dtype;
  return *this;
}

Agreement::Agreement(Session& all, std::shared_ptr<Group> group, const Terms& terms)
    : all_(all), group_(std::move(group)), operation_(terms.operation), contract_(terms.contract) {
  const bool in_pairs = !contract_.sends.empty();
  contract_.fields.insert(contract_.fields.begin(), {"operation", operation_});
  std::uint64_t same = 1;
  for (const auto& [field, value] : contract_.fields) same = mixed(mixed(same, field), value);
  // Only for the words: with nothing to send or expect a rank has no dtype.
  const bool only_expects = terms.dtype.empty();
  const std::string& dtype = only_expects ? terms.expected : terms.dtype;
  if (in_pairs && !dtype.empty()) contract_.fields.emplace_back("dtype", dtype);
  if (in_pairs && !only_expects && !terms.expected.empty()) {
    contract_.fields.emplace_back("dtype expected", terms.expected);
  }
  mine_ = {same, same, terms.balance};
  OperationRecord record;
  record.group = group_->name;
  record.op = operation_;
  record.reduce = terms.reduce;
  if (!in_pairs) record.dtype = terms.dtype;
  if (!in_pairs && !terms.dtype.empty()) record.send_counts = {terms.count};
  if (terms.root >= 0 && terms.root < group_->size) {
    record.root = group_->world_ranks[static_cast<std::size_t>(terms.root)];
  }
  const std::lock_guard lock(all_.mutex);
  sequence_ = group_->sequence++;
  record_ = all_.recorder.begin(std::move(record));
  PMPI_Iallreduce(mine_.data(), all_of_them_.data(), 3, MPI_UINT64_T, all_.agreeing,
                  group_->control, &request_);
}

bool Agreement::done() {
  if (done_) return true;
  if (!ended(request_)) return false;
  if (all_of_them_[0] != all_of_them_[1] || all_of_them_[2] != 0) disagree();
  return done_ = true;
}

std::vector<Contract> Agreement::gather(std::vector<int>& ranks) {
  std::vector<Contract> contracts{contract_};
  ranks = {group_->world_rank()};
  for (int from = 1; from < group_->size; ++from) {
    const std::string text =
        receive_text(group_->control, from, contract_tag, std::chrono::seconds(1));
    if (text.empty()) continue;  // it has not looked yet
    contracts.push_back(contract_from_text(text, "a contract"));
    ranks.push_back(group_->world_ranks[static_cast<std::size_t>(from)]);
  }
  return contracts;
}

// Everybody has it, and has printed it, before the job ends.
std::string Agreement::tell_all(const std::string& found) {
  for (int to = 1; to < group_->size; ++to) send_text(group_->control, found, to, verdict_tag);
  return found;
}

void Agreement::disagree() {
  std::string found;
  if (group_->rank == 0) {
    std::vector<int> ranks;
    const std::vector<Contract> contracts = gather(ranks);
    found = tell_all(differences(contracts, ranks));
  } else {
    send_text(group_->control, to_text(contract_), 0, contract_tag);
    found = receive_text(group_->control, 0, verdict_tag,
                         std::chrono::seconds(2) + std::chrono::seconds(group_->size));
  }
  if (found.empty()) found = "the ranks disagree; this one has" + in_words(contract_);
  say(fmt::format("rank {}: mismatch: {} {} #{}: {}; nothing was written", all_.rank, group_->name,
                  operation_, sequence_, found));
  all_.recorder.end(record_, false);
  if (group_->rank == 0) {
    for (int from = 1; from < group_->size; ++from) {
      receive_text(group_->control, from, printed_tag, std::chrono::milliseconds(500));
    }
  } else {
    send_text(group_->control, "printed", 0, printed_tag);
    within(std::chrono::seconds(2) + std::chrono::seconds(group_->size), [] { return false; });
  }
  give_up(mismatch_code);
}

}  // namespace shardproof::interpose
