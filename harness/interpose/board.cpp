// board: a mapped table that wakes its readers, and files that are renamed into place.
#include "harness/interpose/board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "comm/flight_dump.h"

namespace shardproof::interpose {
namespace {

namespace fs = std::filesystem;

constexpr const char* prefix = "shardproof_mpi.";

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void put_file(const std::string& path, const std::string& bytes) {
  const std::string draft = path + ".new";
  std::ofstream(draft, std::ios::binary) << bytes;
  std::error_code ignored;
  fs::rename(draft, path, ignored);
}

// 'R', 'S', 'T', ...; 0: there is no such process.
char process_state(pid_t pid) {
  const std::string text = file_text(fmt::format("/proc/{}/stat", pid));
  const std::size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? 0 : text[end + 2];
}

std::string machine() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

struct Board::Slot {
  std::atomic<std::int32_t> pid;
  std::atomic<std::uint32_t> answered;
  std::atomic<std::uint32_t> dumped;
};

struct Board::Table {
  std::atomic<std::uint32_t> look;
  std::atomic<std::uint32_t> verdict;
  Slot slots[];
};

std::string Board::new_folder(const std::string& parent) {
  return fmt::format("{}/{}{}.{}", parent, prefix, ::geteuid(), ::getpid());
}

void Board::sweep(const std::string& parent) {
  std::error_code ignored;
  const std::string mine = fmt::format("{}{}.", prefix, ::geteuid());
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(mine) || !name.ends_with("@" + machine())) continue;
    const std::string bytes = file_text(entry.path() / "table");
    bool started = false, lives = false;
    for (std::size_t at = sizeof(Table); at + sizeof(Slot) <= bytes.size(); at += sizeof(Slot)) {
      std::int32_t pid = 0;
      std::memcpy(&pid, bytes.data() + at, sizeof pid);
      started = started || pid != 0;
      lives = lives || (pid != 0 && process_state(pid) != 0);
    }
    if (started && !lives) fs::remove_all(entry.path(), ignored);
  }
}

Board::Board(const std::string& folder, int rank, int size, Ways ways)
    : folder_(folder + "@" + machine()), rank_(rank), size_(size), ways_(std::move(ways)) {
  ::mkdir(folder_.c_str(), 0700);
  const std::string path = folder_ + "/table";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const std::size_t bytes = sizeof(Table) + sizeof(Slot) * static_cast<std::size_t>(size);
  void* const memory = fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0
                           ? MAP_FAILED
                           : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (memory == MAP_FAILED) {
    throw Error(
        ErrorKind::environment, path,
        fmt::format("{}; expected a folder for SHARDPROOF_MPI_BOARD", std::strerror(reason)), rank);
  }
  table_ = static_cast<Table*>(memory);  // zeroed by the system
  table_->slots[rank].pid = ::getpid();
  sigset_t all, before;  // signals are the program's
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Board::~Board() {
  stopping_ = true;
  ::syscall(SYS_futex, &table_->look, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  thread_.join();
}

void Board::work() {
  std::uint32_t seen = 0;
  bool dumped = false;
  while (!stopping_) {
    const std::uint32_t look = table_->look;
    if (look != seen) {
      answer(look);
      seen = look;
    }
    if (table_->verdict != 0 && !dumped) {
      dump();
      table_->slots[rank_].dumped = 1;
      dumped = true;
    }
    timespec limit{0, 200'000'000};  // a wake-up that came before the wait costs no more
    ::syscall(SYS_futex, &table_->look, FUTEX_WAIT, seen, &limit, nullptr, 0);
  }
}

void Board::answer(std::uint32_t look) const {
  constexpr std::size_t last_operations = 32;
  put_file(fmt::format("{}/{}", folder_, rank_), to_json(ways_.records(last_operations)).dump());
  table_->slots[rank_].answered = look;
}

void Board::dump() const {
  constexpr std::size_t every_operation = 1024;
  if (ways_.dumps.empty()) return;
  std::error_code ignored;
  fs::create_directories(ways_.dumps, ignored);
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  put_file(
      ways_.dumps + "/" + flight_dump_name(rank_),
      flight_dump_file(ways_.records(every_operation), std::chrono::nanoseconds(wall).count()));
}

RankLife Board::life(int rank) const {
  const pid_t pid = table_->slots[rank].pid;
  if (pid == 0) return RankLife::silent;
  const char state = process_state(pid);
  if (state == 0 || state == 'Z' || state == 'X') return RankLife::ended;
  return state == 'T' || state == 't' ? RankLife::stopped : RankLife::running;
}

std::uint32_t Board::ask() {
  const std::uint32_t look = table_->look.fetch_add(1) + 1;
  ::syscall(SYS_futex, &table_->look, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  return look;
}

bool Board::answered(std::uint32_t look) const {
  for (int rank = 0; rank < size_; ++rank) {
    if (table_->slots[rank].answered < look && life(rank) == RankLife::running) return false;
  }
  return true;
}

FlightRecords Board::read(std::uint32_t look) const {
  FlightRecords records;
  for (int rank = 0; rank < size_; ++rank) {
    const std::string path = fmt::format("{}/{}", folder_, rank);
    RankRecords each;
    try {
      each = rank_records_from_json(parse_json(file_text(path), path), path);
    } catch (const Error&) {  // it has never answered
      each.life = RankLife::silent;
    }
    each.rank = rank;
    const RankLife now = life(rank);
    if (now != RankLife::running) {
      each.life = now;
    } else if (table_->slots[rank].answered < look) {
      each.life = RankLife::silent;
    }
    records.ranks.push_back(std::move(each));
  }
  return records;
}

bool Board::claim_verdict() {
  std::uint32_t none = 0;
  const bool first = table_->verdict.compare_exchange_strong(none, 1);
  ask();  // wakes the others
  return first;
}

bool Board::dumped() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (table_->slots[rank].dumped == 0 && life(rank) == RankLife::running) return false;
  }
  return true;
}

void Board::remove() {
  std::error_code ignored;
  const std::string gone = fmt::format("{}.{}", folder_, rank_);
  fs::rename(folder_, gone, ignored);  // other ranks find it no more, and write nothing into it
  fs::remove_all(gone, ignored);
}

}  // namespace shardproof::interpose
