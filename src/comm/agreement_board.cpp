// agreement_board: the memory, how ranks come by it, and waiting on a futex.
#include "comm/agreement_board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/check.h"
#include "comm/sides.h"

namespace shardproof {

struct alignas(64) AgreementBoard::Slot {
  std::atomic<std::uint64_t> round;  // the last it has come to
  std::array<std::atomic<std::uint64_t>, 2> same;
  std::array<std::atomic<std::uint64_t>, 2> balance;
};

// All zeros at first: a fresh file is that.
struct AgreementBoard::Memory {
  static constexpr std::size_t room = 2048;
  std::array<std::atomic<std::uint64_t>, 2> name;  // what the board's maker drew
  alignas(64) std::atomic<std::uint64_t> arrivals;
  std::atomic<std::uint32_t> changes;  // the futex: moves with every completed round
  std::atomic<std::uint32_t> sleepers;
  alignas(64) std::atomic<std::uint32_t> notice_state;  // 0: none, 1: being written, 2: there
  std::uint32_t notice_size;
  std::array<char, room> notice;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// What a rank says of itself so that others can reach its memory.
struct Identity {
  std::uint64_t machine = 0;
  std::uint64_t process = 0;
  std::uint64_t fd = 0;
  std::array<std::uint64_t, 2> name{};
  std::uint64_t padding = 0;
};

std::uint64_t random_word() {
  std::uint64_t word = 0;
  SP_CHECK_EQ(getrandom(&word, sizeof word, 0), static_cast<ssize_t>(sizeof word));
  return word | 1;
}

std::uint64_t this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  std::uint64_t hash = 14695981039346656037u;
  for (const char letter : id) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  return id.empty() ? 0 : hash;
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, Duration duration) {
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(duration.count() / 1'000'000'000);
  limit.tv_nsec = static_cast<long>(duration.count() % 1'000'000'000);
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, 1 << 30, nullptr, nullptr,
          0);
}

void* map(int fd, std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// The maker's file, through the kernel's list of its open files; null when that is not possible.
void* map_of(const Identity& maker, std::size_t bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", maker.process, maker.fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat facts {};
  void* memory = nullptr;
  if (fstat(fd, &facts) == 0 && static_cast<std::size_t>(facts.st_size) == bytes) {
    memory = map(fd, bytes);
  }
  close(fd);
  return memory;
}

struct OpenFile {
  int fd = -1;
  ~OpenFile() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

std::size_t AgreementBoard::bytes_for(int size) {
  return sizeof(Memory) + static_cast<std::size_t>(size) * sizeof(Slot);
}

AgreementBoard::AgreementBoard(void* memory, std::size_t bytes, int size)
    : memory_(memory), bytes_(bytes), size_(size) {}

AgreementBoard::~AgreementBoard() {
  munmap(memory_, bytes_);
}

AgreementBoard::Memory& AgreementBoard::memory() const {
  return *static_cast<Memory*>(memory_);
}

AgreementBoard::Slot& AgreementBoard::slot(int rank) const {
  return reinterpret_cast<Slot*>(&memory() + 1)[rank];
}

std::shared_ptr<AgreementBoard> AgreementBoard::share(Communicator& control, Deadline deadline) {
  const int size = control.size();
  const std::size_t bytes = bytes_for(size);
  Identity mine;
  mine.machine = this_machine();
  mine.process = static_cast<std::uint64_t>(getpid());
  OpenFile file;  // of rank 0, until all have it
  std::shared_ptr<AgreementBoard> board;
  const auto take = [&](void* memory) {
    if (memory != nullptr) board.reset(new AgreementBoard(memory, bytes, size));
  };
  if (control.rank() == 0) {
    file.fd = memfd_create("shardproof-agreement", MFD_CLOEXEC);
    if (file.fd >= 0 && ftruncate(file.fd, static_cast<off_t>(bytes)) == 0) {
      take(map(file.fd, bytes));
    }
    mine.fd = static_cast<std::uint64_t>(file.fd);
    for (std::size_t i = 0; board != nullptr && i < 2; ++i) {
      mine.name[i] = random_word();
      board->memory().name[i] = mine.name[i];
    }
  }
  Identity maker = mine;
  Call tell;
  tell.kind = CallKind::broadcast;
  tell.dtype = Dtype::u8;
  tell.recv = &maker;
  tell.count = sizeof maker;
  tell.peer = 0;
  control.run(tell, deadline);
  const bool near = maker.machine != 0 && maker.machine == mine.machine;
  if (control.rank() != 0 && maker.name[0] != 0 && near) {
    take(map_of(maker, bytes));
    // Another process by that number, in another container?
    if (board != nullptr &&
        (board->memory().name[0] != maker.name[0] || board->memory().name[1] != maker.name[1])) {
      board.reset();
    }
  }
  std::int64_t shared = board != nullptr ? 1 : 0;
  Call ask;
  ask.kind = CallKind::all_reduce;
  ask.op = ReduceOp::min;
  ask.dtype = Dtype::i64;
  ask.send = &shared;
  ask.recv = &shared;
  ask.count = 1;
  control.run(ask, deadline);
  return shared == 1 ? board : nullptr;
}

bool AgreementBoard::agree(int rank, std::uint64_t round, const Fingerprint& mine,
                           const Deadline& deadline, const std::function<void()>& healthy,
                           const std::function<std::string()>& place) {
  Memory& board = memory();
  const std::size_t side = round % 2;
  Slot& own = slot(rank);
  own.same[side].store(mine.same, std::memory_order_relaxed);
  own.balance[side].store(mine.balance, std::memory_order_relaxed);
  own.round.store(round, std::memory_order_relaxed);
  const std::uint64_t all = round * static_cast<std::uint64_t>(size_);
  const auto complete = [&] { return board.arrivals.load(std::memory_order_seq_cst) >= all; };
  if (board.arrivals.fetch_add(1, std::memory_order_seq_cst) + 1 >= all) {
    board.changes.fetch_add(1, std::memory_order_seq_cst);
    if (board.sleepers.load(std::memory_order_seq_cst) > 0) futex_wake(board.changes);
  } else {
    const auto begin = std::chrono::steady_clock::now();
    auto next_look = begin + milliseconds(1);
    for (int polls = 0; !complete(); ++polls) {
      if (polls < 20) continue;
      const auto now = std::chrono::steady_clock::now();
      if (now >= next_look) {
        healthy();
        next_look = now + milliseconds(1);
        if (deadline.expired()) {
          std::vector<int> late = missing(round);
          throw Error(ErrorKind::timeout, place(),
                      fmt::format("group {} did not come", ranks_text(late)));
        }
      }
      if (now - begin < microseconds(100)) {
        std::this_thread::yield();
        continue;
      }
      // Longer sleeps the longer it lasts: a rank that computes for seconds is waited for cheaply.
      const Duration slice =
          std::clamp<Duration>((now - begin) / 8, microseconds(500), milliseconds(10));
      board.sleepers.fetch_add(1, std::memory_order_seq_cst);
      const std::uint32_t seen = board.changes.load(std::memory_order_seq_cst);
      if (!complete()) futex_wait(board.changes, seen, std::min(slice, deadline.left()));
      board.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    }
  }
  std::uint64_t balance = 0;
  bool same = true;
  for (int peer = 0; peer < size_; ++peer) {
    const Slot& theirs = slot(peer);
    same = same && theirs.same[side].load(std::memory_order_relaxed) == mine.same;
    balance += theirs.balance[side].load(std::memory_order_relaxed);
  }
  return same && balance == 0;
}

std::vector<int> AgreementBoard::missing(std::uint64_t round) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (slot(rank).round.load(std::memory_order_relaxed) < round) ranks.push_back(rank);
  }
  return ranks;
}

void AgreementBoard::give_notice(const std::string& text) {
  Memory& board = memory();
  std::uint32_t none = 0;
  if (!board.notice_state.compare_exchange_strong(none, 1)) return;
  board.notice_size = static_cast<std::uint32_t>(std::min(text.size(), Memory::room));
  std::memcpy(board.notice.data(), text.data(), board.notice_size);
  board.notice_state.store(2, std::memory_order_release);
}

std::optional<std::string> AgreementBoard::notice() const {
  const Memory& board = memory();
  if (board.notice_state.load(std::memory_order_acquire) != 2) return std::nullopt;
  return std::string(board.notice.data(), board.notice_size);
}

}  // namespace shardproof
