// mpi_communicator: runs calls inline or through the queue; makes and breaks groups; owns the
// library.
#include "comm/mpi_communicator.h"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "comm/mpi_agreement.h"
#include "comm/mpi_queue.h"

namespace shardproof {

namespace {

// What the communicators of a process share.
struct Shared {
  std::shared_ptr<MpiProcess> process;
  MpiQueue queue;
  Duration timeout;
};

class MpiWork : public Work {
 public:
  MpiWork(std::shared_ptr<Shared> shared, std::shared_ptr<MpiQueue::Item> item)
      : shared_(std::move(shared)), item_(std::move(item)) {}
  ~MpiWork() override {
    try {
      shared_->queue.wait(*item_, Deadline::after(shared_->timeout));
    } catch (const Error&) {  // whoever wanted the result has waited
      shared_->queue.wait_finished(*item_);
    }
  }
  void wait(Deadline deadline) override { shared_->queue.wait(*item_, deadline); }
  bool done() const override { return shared_->queue.finished(*item_); }

 private:
  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<MpiQueue::Item> item_;
};

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<Shared> shared, std::shared_ptr<MpiGroup> group)
      : shared_(std::move(shared)), group_(std::move(group)) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  const Group& group() const override { return group_->group(); }
  bool poisoned() const override { return group_->poisoned(); }
  std::vector<int> failed_ranks() const override { return dead_ranks(group_->comm()); }
  Traffic traffic() const override { return group_->traffic(); }
  Duration timeout() const override { return shared_->timeout; }

  void run(const Call& call, Deadline deadline) override;
  std::unique_ptr<Work> start(const Call& call, Keep keep) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& label,
                                      Deadline deadline) override;
  void revoke() override { group_->revoke(); }
  void abort() override;
  std::uint64_t agree(std::uint64_t flags, Deadline deadline) override;
  std::unique_ptr<Communicator> shrink(const std::string& label, Deadline deadline) override;

 private:
  void run_inline(const Call& call, int tag, Deadline deadline, bool counted);
  void after_started_collectives(Deadline deadline) {
    poll(
        *group_, deadline, [&] { return group_->pending_collectives == 0; },
        [&] { return place("split"); });
  }
  int tag_of(const Call& call) {
    return is_message(call.kind) ? message_tags + call.tag : group_->next_collective();
  }
  std::unique_ptr<Communicator> make_child(MPI_Comm comm, Group group, bool descends,
                                           Deadline deadline);
  std::string place(std::string_view what) const { return group().name + " " + std::string(what); }
  Error needs_ulfm(std::string_view what) const {
    return {ErrorKind::environment, place(what),
            "on a broken group this needs an MPI with ULFM (Open MPI 5)"};
  }

  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<MpiGroup> group_;
  std::map<std::string, int> labels_;  // how often each was used
};

void MpiCommunicator::run(const Call& call, Deadline deadline) {
  validate(call, rank(), size());
  const int tag = tag_of(call);
  group_->count_call();
  const bool behind =
      is_message(call.kind) ? group_->pending_messages > 0 : group_->pending_collectives > 0;
  if (!behind) return run_inline(call, tag, deadline, true);
  const auto item = shared_->queue.push(group_, call, nullptr, tag);
  try {
    shared_->queue.wait(*item, deadline);
  } catch (const Error&) {
    shared_->queue.wait_finished(*item);  // nothing touches the caller's buffers any more
    throw;
  }
}

// The ranks that the members of `comm` have in `parent`.
std::vector<int> ranks_in(MPI_Comm comm, MPI_Comm parent) {
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Comm_group(comm, &members);
  MPI_Comm_group(parent, &all);
  int size = 0;
  MPI_Group_size(members, &size);
  std::vector<int> numbers(static_cast<std::size_t>(size));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<int> ranks(numbers.size());
  MPI_Group_translate_ranks(members, size, numbers.data(), all, ranks.data());
  MPI_Group_free(&members);
  MPI_Group_free(&all);
  return ranks;
}

// Counts a call of the owner's thread, so that abort() on another thread can wait for its end.
class Active {
 public:
  explicit Active(MpiGroup& group) : group_(group) { ++group_.active; }
  ~Active() { --group_.active; }
  Active(const Active&) = delete;

 private:
  MpiGroup& group_;
};

void MpiCommunicator::run_inline(const Call& call, int tag, Deadline deadline, bool counted) {
  const Active active(*group_);
  if (group_->stopped()) group_->check(call_place(*group_, call.kind, call.peer, tag));
  const Duration begin = Clock::real().now();
  MpiExecution execution(group_, shared_->queue.buffers(), call, tag);
  const auto count = [&] {
    if (counted) group_->count(execution.bytes_sent(), Clock::real().now() - begin);
  };
  try {
    poll(
        *group_, deadline, [&] { return execution.advance(); }, [&] { return execution.place(); });
  } catch (const Error&) {
    count();
    throw;
  }
  count();
}

std::unique_ptr<Work> MpiCommunicator::start(const Call& call, Keep keep) {
  validate(call, rank(), size());
  return std::make_unique<MpiWork>(
      shared_, shared_->queue.push(group_, call, std::move(keep), tag_of(call)));
}

void MpiCommunicator::abort() {
  group_->poison();
  while (group_->active > 0) std::this_thread::yield();
  shared_->queue.drain(*group_);
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key, const std::string& label,
                                                     Deadline deadline) {
  struct Wish {
    std::int32_t color;
    std::int32_t key;
  };
  std::vector<Wish> wishes(static_cast<std::size_t>(size()));
  wishes[static_cast<std::size_t>(rank())] = {color, key};
  Call gather;
  gather.kind = CallKind::all_gather;
  gather.dtype = Dtype::i32;
  gather.send = &wishes[static_cast<std::size_t>(rank())];
  gather.recv = wishes.data();
  gather.recv_counts.assign(wishes.size(), 2);
  after_started_collectives(deadline);
  run_inline(gather, group_->next_collective(), deadline, false);

  const int repeat = labels_[label]++;
  if (color < 0) return nullptr;
  std::vector<int> members;
  for (int r = 0; r < size(); ++r) {
    if (wishes[static_cast<std::size_t>(r)].color == color) members.push_back(r);
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });
  Group child{child_name(group().name, label, repeat, color), {}};
  for (const int r : members) {
    child.world_ranks.push_back(group().world_ranks[static_cast<std::size_t>(r)]);
  }

  const auto made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  const std::string where = place("split");
  const int code =
      call_blocking(*group_, deadline, where, OnBrokenGroup::gives_up,
                    [comm = group_->comm(), members, made, parent = group_] {
                      MPI_Group all = MPI_GROUP_NULL;
                      MPI_Group some = MPI_GROUP_NULL;
                      MPI_Comm_group(comm, &all);
                      MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some);
                      const int result = MPI_Comm_create_group(comm, some, 0, made.get());
                      MPI_Group_free(&some);
                      MPI_Group_free(&all);
                      return result;
                    });
  if (code != MPI_SUCCESS) group_->fail(code, where);
  return make_child(*made, std::move(child), true, deadline);
}

// Nobody leaves before everybody has the communicator: the library (Open MPI 5.0) crashes when a
// revocation arrives for one that it is still making.
std::unique_ptr<Communicator> MpiCommunicator::make_child(MPI_Comm comm, Group group, bool descends,
                                                          Deadline deadline) {
  auto child = std::make_unique<MpiCommunicator>(
      shared_, std::make_shared<MpiGroup>(group_->shared_process(), comm, std::move(group),
                                          descends ? group_ : nullptr));
  try {
    child->run_inline(Call{}, child->group_->next_collective(), deadline, false);
  } catch (const Error& error) {  // revoked at once by a rank that is through: the child says so
    if (error.kind() != ErrorKind::revoked) throw;
  }
  return child;
}

std::uint64_t MpiCommunicator::agree(std::uint64_t flags, Deadline deadline) {
  if (ulfm_compiled()) return agree_with_ulfm(*group_, flags, deadline);
  if (group_->poisoned()) throw needs_ulfm("agree");
  Call call;
  call.kind = CallKind::all_reduce;
  call.op = ReduceOp::bit_or;
  call.dtype = Dtype::i64;
  call.send = &flags;
  call.recv = &flags;
  call.count = 1;
  run_inline(call, group_->next_agreement(), deadline, false);
  return flags;
}

std::unique_ptr<Communicator> MpiCommunicator::shrink(const std::string& label, Deadline deadline) {
  if (!ulfm_compiled()) {
    if (group_->poisoned()) throw needs_ulfm("shrink");
    return split(0, rank(), label, deadline);
  }
  const std::string where = place("shrink");
  const auto made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  const int code =
      call_blocking(*group_, deadline, where, OnBrokenGroup::goes_on,
                    [parent = group_, made] { return shrink_comm(parent->comm(), made.get()); });
  if (code != MPI_SUCCESS) group_->fail(code, where);
  Group survivors{child_name(group().name, label, labels_[label]++, -1), {}};
  for (const int r : ranks_in(*made, group_->comm())) {
    survivors.world_ranks.push_back(group().world_ranks[static_cast<std::size_t>(r)]);
  }
  return make_child(*made, std::move(survivors), false, deadline);
}

}  // namespace

struct MpiWorld::State {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::shared_ptr<MpiGroup> world;
  bool given = false;
};

namespace {

bool crowded_machine() {
  MPI_Comm here = MPI_COMM_NULL;
  int ranks = 1;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  MPI_Comm_size(here, &ranks);
  MPI_Comm_free(&here);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return true;
  return ranks > CPU_COUNT(&cores);
}

}  // namespace

MpiWorld::MpiWorld(Duration timeout) : state_(std::make_shared<State>()) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  void* largest_tag = nullptr;
  int flag = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest_tag, &flag);
  if (provided < MPI_THREAD_MULTIPLE || !flag || *static_cast<int*>(largest_tag) < revoke_tag) {
    throw Error(ErrorKind::environment, library_version(),
                "expected an MPI with MPI_THREAD_MULTIPLE and tags up to 2^22");
  }
  auto process = std::make_shared<MpiProcess>();
  process->crowded = crowded_machine();
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  Group group{"world", {}};
  int size = 0;
  MPI_Comm_size(comm, &size);
  group.world_ranks.resize(static_cast<std::size_t>(size));
  std::iota(group.world_ranks.begin(), group.world_ranks.end(), 0);
  state_->world = std::make_shared<MpiGroup>(process, comm, std::move(group), nullptr);
  state_->shared->process = std::move(process);
  state_->shared->timeout = timeout;
}

MpiWorld::~MpiWorld() {
  MpiProcess& process = *state_->shared->process;
  // An exception on its way out, or a communicator still in use: the ranks end apart.
  bool together = !state_->world->poisoned() && std::uncaught_exceptions() == 0 &&
                  state_->shared.use_count() == 1;
  try {
    MpiCommunicator world(state_->shared, state_->world);
    together = together && world.agree(0, default_deadline(world)) == 0;
  } catch (const Error&) {
    together = false;
  }
  process.finalized = true;
  if (together) MPI_Finalize();
}

std::unique_ptr<Communicator> MpiWorld::communicator() {
  SP_CHECK(!state_->given, "the world communicator is given once");
  state_->given = true;
  return std::make_unique<MpiCommunicator>(state_->shared, state_->world);
}

std::string MpiWorld::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return text.data();  // Open MPI counts the closing zero byte, too
}

bool MpiWorld::has_ulfm() {
  return ulfm_compiled();
}

}  // namespace shardproof
