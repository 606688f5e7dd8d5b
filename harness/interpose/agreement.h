// agreement: the ranks of a communicator agree on the terms of a collective before it begins: one
// all-reduce of 24 bytes on the control communicator. Where they differ every rank says in which
// fields, and which ranks stand on each side, and the job ends with exit code 86.
// Thread rule: as session.h.
#pragma once

#include <mpi.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "comm/contract.h"
#include "harness/interpose/session.h"
#include "harness/interpose/signature.h"

namespace shardproof::interpose {

// What a rank brings. Fields must be equal on all ranks; what one rank sends to another and what
// that expects of it must be equal pair by pair.
struct Terms {
  std::string operation;  // "all_reduce": as flight records name it
  Contract contract{};
  std::string dtype{};     // for the record, where all ranks have the same
  std::string expected{};  // where it says both: the dtype of what it receives
  std::string reduce{};
  std::uint64_t count = 0;
  int root = -1;  // of the communicator
  std::uint64_t balance = 0;

  explicit Terms(std::string name) : operation(std::move(name)) {}
  Terms& field(const char* name, std::string value);
  Terms& data(const Signature& same);  // dtype and count, the same on all ranks
  Terms& part(int index, const Signature& same);
  Terms& op(MPI_Op op);
  Terms& from_root(int root);
  Terms& pairs(int size);  // before those below
  Terms& sends(int self, int to, const Signature& what);
  Terms& receives(int self, int from, const Signature& what);
};

class Agreement {
 public:
  Agreement(Session& all, std::shared_ptr<Group> group, const Terms& terms);
  Agreement(const Agreement&) = delete;
  // Never true and does not return when the ranks disagree.
  bool done();
  std::uint64_t record() const { return record_; }

 private:
  [[noreturn]] void disagree();
  std::vector<Contract> gather(std::vector<int>& ranks);
  std::string tell_all(const std::string& found);

  Session& all_;
  const std::shared_ptr<Group> group_;
  const std::string operation_;
  Contract contract_;
  std::uint64_t sequence_ = 0;
  std::uint64_t record_ = 0;
  std::array<std::uint64_t, 3> mine_{}, all_of_them_{};
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool done_ = false;
};

MPI_Op make_agreeing_op();

}  // namespace shardproof::interpose
