// contract: the list of fields, and what is made of it.
#include "comm/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "comm/sides.h"

namespace shardproof {

namespace {

bool reduces(CallKind kind) {
  return kind == CallKind::reduce || kind == CallKind::all_reduce ||
         kind == CallKind::reduce_scatter;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 32);
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char letter : text) hash = mixed(hash, static_cast<unsigned char>(letter));
  return hash;
}

// visit(field, index or -1, value, its text); texts are made on demand.
template <typename Visit>
void visit_fields(const Proposal& proposal, const Visit& visit) {
  const auto number = [&](const char* field, std::uint64_t value, int index = -1) {
    visit(field, index, value, [value] { return std::to_string(value); });
  };
  const auto word = [&](const char* field, std::uint64_t value, std::string_view text) {
    visit(field, -1, value, [text] { return std::string(text); });
  };
  number("sequence", proposal.sequence);
  if (proposal.call == nullptr) {
    word("operation", hash_of("split"), "split");
    word("label", hash_of(proposal.label), proposal.label);
    return;
  }
  const Call& call = *proposal.call;
  word("operation", static_cast<std::uint64_t>(call.kind), name(call.kind));
  if (call.kind == CallKind::barrier) return;
  word("dtype", static_cast<std::uint64_t>(call.dtype), name(call.dtype));
  if (reduces(call.kind)) word("reduce op", static_cast<std::uint64_t>(call.op), name(call.op));
  switch (call.kind) {
    case CallKind::broadcast:
    case CallKind::reduce:
      number("root", static_cast<std::uint64_t>(call.peer));
      number("count", call.count);
      break;
    case CallKind::all_reduce:
      number("count", call.count);
      break;
    case CallKind::reduce_scatter:
    case CallKind::all_gather:
      for (std::size_t r = 0; r < call.recv_counts.size(); ++r) {
        number("split", call.recv_counts[r], static_cast<int>(r));
      }
      break;
    default:
      break;
  }
}

std::uint64_t pair_hash(std::size_t from, std::size_t to, std::uint64_t count) {
  return mixed(mixed(mixed(0x2545f4914f6cdd1du, from), to), count);
}

}  // namespace

Fingerprint fingerprint_of(const Proposal& proposal) {
  Fingerprint print;
  visit_fields(proposal, [&](const char*, int, std::uint64_t value, const auto&) {
    print.same = mixed(print.same, value);
  });
  const Call* const call = proposal.call;
  if (call == nullptr || call->kind != CallKind::all_to_all) return print;
  const auto self = static_cast<std::size_t>(proposal.rank);
  for (std::size_t peer = 0; peer < call->send_counts.size(); ++peer) {
    if (peer == self) continue;  // a rank that keeps its own part says 0 on one side
    print.balance += pair_hash(self, peer, call->send_counts[peer]);
    print.balance -= pair_hash(peer, self, call->recv_counts[peer]);
  }
  return print;
}

Contract contract_of(const Proposal& proposal) {
  Contract contract;
  visit_fields(proposal, [&](const char* field, int index, std::uint64_t, const auto& text) {
    contract.fields.emplace_back(index < 0 ? field : fmt::format("{} {}", field, index), text());
  });
  const Call* const call = proposal.call;
  if (call == nullptr || call->kind != CallKind::all_to_all) return contract;
  contract.sends.assign(call->send_counts.begin(), call->send_counts.end());
  contract.receives.assign(call->recv_counts.begin(), call->recv_counts.end());
  return contract;
}

std::string to_text(const Contract& contract) {
  return Json{{"fields", contract.fields}, {"sends", contract.sends}, {"recvs", contract.receives}}
      .dump();
}

Contract contract_from_text(const std::string& text, const std::string& place) {
  const Json json = parse_json(text, place, ErrorKind::corrupt);
  try {
    return {member(json, "fields", place).get<std::vector<std::pair<std::string, std::string>>>(),
            member(json, "sends", place).get<std::vector<std::uint64_t>>(),
            member(json, "recvs", place).get<std::vector<std::uint64_t>>()};
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::corrupt, place, error.what());
  }
}

std::string differences(const std::vector<Contract>& contracts,
                        const std::vector<int>& world_ranks) {
  std::vector<std::string> names;  // in the order of the fields
  std::map<std::string, std::vector<std::pair<int, std::string>>> values;
  for (std::size_t r = 0; r < contracts.size(); ++r) {
    for (const auto& [field, value] : contracts[r].fields) {
      if (!values.contains(field)) names.push_back(field);
      values[field].emplace_back(world_ranks[r], value);
    }
  }
  std::string text;
  const auto add = [&text](const std::string& line) {
    if (!line.empty()) text += (text.empty() ? "" : ", ") + line;
  };
  for (const std::string& field : names) {
    auto& each = values[field];
    if (each.size() < contracts.size()) {  // of another operation: it says enough
      if (field != "label") continue;
    }
    add(sides(field, each));
  }
  for (std::size_t from = 0; from < contracts.size(); ++from) {
    for (std::size_t to = 0; to < contracts.size(); ++to) {
      if (from == to || contracts[from].sends.size() <= to) continue;
      if (contracts[to].receives.size() <= from) continue;
      const std::uint64_t sent = contracts[from].sends[to];
      const std::uint64_t expected = contracts[to].receives[from];
      if (sent == expected) continue;
      add(fmt::format("split: rank {} sends {} to rank {}, which expects {}", world_ranks[from],
                      sent, world_ranks[to], expected));
    }
  }
  return text;
}

Envelope envelope_of(const Call& call, std::uint64_t sequence) {
  return {sequence, call.count, static_cast<std::int64_t>(call.dtype), call.tag};
}

std::string differences(const Envelope& sent, int sender, const Envelope& expected, int receiver) {
  std::string text;
  const auto compare = [&](const char* field, const std::string& mine, const std::string& theirs) {
    const std::string line = sides(field, {{sender, mine}, {receiver, theirs}});
    if (!line.empty()) text += (text.empty() ? "" : ", ") + line;
  };
  const auto dtype = [](const Envelope& each) {
    return std::string(name(static_cast<Dtype>(each.dtype)));
  };
  compare("sequence", std::to_string(sent.sequence), std::to_string(expected.sequence));
  compare("tag", std::to_string(sent.tag), std::to_string(expected.tag));
  compare("dtype", dtype(sent), dtype(expected));
  compare("count", std::to_string(sent.count), std::to_string(expected.count));
  return text;
}

}  // namespace shardproof
