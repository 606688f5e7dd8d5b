// show_collectives: the operations, and what each rank gives them.
#include "harness/cli/show_collectives.h"

#include <functional>
#include <memory>
#include <numeric>

#include "comm/thread_communicator.h"
#include "harness/rank_pool.h"

namespace shardproof {
namespace {

using Numbers = std::vector<std::int32_t>;
constexpr Dtype dtype = Dtype::i32;

// What an operation does with a rank's numbers.
struct Operation {
  std::string name;
  std::string sentence;
  std::function<Numbers(int rank, int ranks)> before;
  std::function<Numbers(Communicator&, Numbers before)> run;
};

// Rank 2 of 4 holds 20 21 22 23: the tens say from whom, the ones which element.
Numbers one_each(int rank, int ranks) {
  Numbers numbers(static_cast<std::size_t>(ranks));
  std::iota(numbers.begin(), numbers.end(), 10 * rank);
  return numbers;
}

Numbers one(int rank, int) {
  return {10 * rank};
}

// Share r has r + 1 elements.
std::vector<std::size_t> growing(int ranks) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(ranks));
  std::iota(counts.begin(), counts.end(), std::size_t{1});
  return counts;
}

std::size_t total(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

Numbers own_share(int rank, int) {
  Numbers numbers(static_cast<std::size_t>(rank) + 1);
  std::iota(numbers.begin(), numbers.end(), 10 * rank);
  return numbers;
}

Numbers all_shares(int rank, int ranks) {
  Numbers numbers(total(growing(ranks)));
  std::iota(numbers.begin(), numbers.end(), 100 * rank);
  return numbers;
}

// To rank i goes i + 1 numbers, of which the first is 10 * from + i.
Numbers for_each_rank(int rank, int ranks) {
  Numbers numbers;
  for (int to = 0; to < ranks; ++to) numbers.insert(numbers.end(), to + 1u, 10 * rank + to);
  return numbers;
}

std::vector<Operation> reductions() {
  return {
      {"reduce", "rank 0 gets the sum; the others keep what they had", one_each,
       [](Communicator& comm, Numbers n) {
         reduce(comm, n.data(), n.data(), n.size(), dtype, ReduceOp::sum, 0);
         return n;
       }},
      {"all_reduce", "every rank gets the sum", one_each,
       [](Communicator& comm, Numbers n) {
         all_reduce(comm, n.data(), n.data(), n.size(), dtype, ReduceOp::sum);
         return n;
       }},
      {"all_reduce max", "every rank gets the largest", one_each,
       [](Communicator& comm, Numbers n) {
         all_reduce(comm, n.data(), n.data(), n.size(), dtype, ReduceOp::max);
         return n;
       }},
      {"reduce_scatter", "rank i gets element i of the sum", one_each,
       [](Communicator& comm, Numbers n) {
         Numbers mine(1);
         reduce_scatter(comm, n.data(), mine.data(), 1, dtype, ReduceOp::sum);
         return mine;
       }},
      {"reduce_scatter_v", "rank i gets i + 1 elements of the sum", all_shares,
       [](Communicator& comm, Numbers n) {
         const auto counts = growing(comm.size());
         Numbers mine(counts[static_cast<std::size_t>(comm.rank())]);
         reduce_scatter_v(comm, n.data(), mine.data(), counts, dtype, ReduceOp::sum);
         return mine;
       }},
  };
}

std::vector<Operation> movements() {
  return {
      {"broadcast", "every rank gets what rank 1 holds (rank 0 where it is alone)", one_each,
       [](Communicator& comm, Numbers n) {
         broadcast(comm, n.data(), n.size(), dtype, comm.size() > 1 ? 1 : 0);
         return n;
       }},
      {"all_gather", "every rank gets the element of each", one,
       [](Communicator& comm, Numbers n) {
         Numbers all(static_cast<std::size_t>(comm.size()));
         all_gather(comm, n.data(), all.data(), 1, dtype);
         return all;
       }},
      {"all_gather_v", "every rank gets the i + 1 elements of each rank i", own_share,
       [](Communicator& comm, Numbers n) {
         const auto counts = growing(comm.size());
         Numbers all(total(counts));
         all_gather_v(comm, n.data(), all.data(), counts, dtype);
         return all;
       }},
      {"all_to_all", "rank i gets element i of each rank", one_each,
       [](Communicator& comm, Numbers n) {
         Numbers got(n.size());
         all_to_all(comm, n.data(), got.data(), 1, dtype);
         return got;
       }},
      {"all_to_all_v", "rank i gets i + 1 elements of each rank", for_each_rank,
       [](Communicator& comm, Numbers n) {
         const auto each = static_cast<std::size_t>(comm.rank()) + 1;
         const std::vector<std::size_t> from(static_cast<std::size_t>(comm.size()), each);
         Numbers got(total(from));
         all_to_all_v(comm, n.data(), got.data(), growing(comm.size()), from, dtype);
         return got;
       }},
      {"send, recv", "even ranks send to the next rank, odd ranks receive", one,
       [](Communicator& comm, Numbers n) {
         const bool even = comm.rank() % 2 == 0;
         if (even && comm.rank() + 1 < comm.size()) {
           send(comm, n.data(), 1, dtype, comm.rank() + 1, 0);
         } else if (!even) {
           recv(comm, n.data(), 1, dtype, comm.rank() - 1, 0);
         }
         return n;
       }},
      {"barrier", "nobody leaves before everybody has come", one,
       [](Communicator& comm, Numbers n) {
         barrier(comm);
         return n;
       }},
      {"split", "ranks of the same parity form a group; each gets the members of its own", one,
       [](Communicator& comm, Numbers) {
         const auto group =
             comm.split(comm.rank() % 2, comm.rank(), "parity", default_deadline(comm));
         return Numbers(group->group().world_ranks);
       }},
  };
}

}  // namespace

std::vector<ShownOperation> run_collectives(int ranks) {
  std::vector<Operation> operations = movements();
  for (Operation& each : reductions()) operations.push_back(std::move(each));
  std::vector<ShownOperation> shown;
  for (const Operation& each : operations) {
    shown.push_back(
        {each.name, each.sentence, std::vector<ShownRank>(static_cast<std::size_t>(ranks))});
  }
  ThreadWorld world(ranks);
  const auto body = [&](int rank) {
    const auto comm = world.communicator(rank);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      ShownRank& mine = shown[i].ranks[static_cast<std::size_t>(rank)];
      mine.before = operations[i].before(rank, ranks);
      const std::uint64_t sent = comm->traffic().bytes_sent;
      mine.after = operations[i].run(*comm, mine.before);
      mine.bytes_sent = comm->traffic().bytes_sent - sent;
    }
  };
  run_ranks(ranks, body, [&] { world.revoke_all(); });
  return shown;
}

}  // namespace shardproof
