// pickle_machine: the stack, marks and memo of a pickle (Python's pickletools, protocols 0 to 5),
// for readers that differ in what they make of its values. Values are numbers that the reader
// gives; nothing is ever executed. Internal to readers of pickles. Thread rule: one thread.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace shardproof::internal {

class PickleMachine {
 public:
  using Index = std::uint32_t;

  // At most `limit` values, and entries on the stack.
  PickleMachine(std::string_view bytes, std::size_t limit) : bytes_(bytes), limit_(limit) {}
  virtual ~PickleMachine() = default;
  PickleMachine(const PickleMachine&) = delete;
  PickleMachine& operator=(const PickleMachine&) = delete;

 protected:
  Index run();  // the one value that is left; nothing may follow the end

  // What is wrong, at opcode_at().
  [[noreturn]] virtual void fail(const std::string& what) const = 0;
  [[noreturn]] virtual void unknown(unsigned char opcode) const = 0;
  // False: not one of those that this reader alone takes.
  virtual bool step_own(unsigned char opcode) = 0;

  // Each makes a value and pushes it.
  virtual void none() = 0;
  virtual void boolean(bool value) = 0;
  virtual void integer(std::int64_t value) = 0;
  virtual void wide_integer(std::uint64_t width) = 0;  // of more than 8 bytes, not taken yet
  virtual void real(double value) = 0;
  virtual void text(std::string_view bytes) = 0;  // str
  virtual void raw(std::string_view bytes) = 0;   // bytes, and strings of Python 2
  virtual void list(std::vector<Index> items) = 0;
  virtual void dict(std::vector<Index> items) = 0;  // key, value, ...: an even number
  // The container on top takes items, or keys and values (an even number).
  virtual void extend(bool pairs, const std::vector<Index>& items) = 0;

  std::size_t opcode_at() const { return opcode_at_; }
  std::string_view take(std::uint64_t count);
  std::uint64_t take_number(int width);  // little-endian
  std::string_view take_line();
  void push(Index value);
  Index pop();
  Index top() const;
  std::vector<Index> pop_items(std::size_t count);
  std::string limit_text() const;  // "more than 2 million values"

  template <typename Number>
  Number number_in(std::string_view line) const {
    Number number{};
    const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (code != std::errc() || end != line.data() + line.size()) no_number(line);
    return number;
  }

 private:
  bool step();
  bool step_plain(unsigned char opcode);
  bool step_text(unsigned char opcode);
  bool step_container(unsigned char opcode);
  bool step_memo(unsigned char opcode);
  [[noreturn]] void no_number(std::string_view line) const;
  void take_long(std::uint64_t width);
  std::vector<Index> pop_to_mark();
  std::vector<Index> pairs_of(std::vector<Index> items) const;
  void put(std::uint64_t name);
  void get(std::uint64_t name);
  // How much of the stack belongs to what is above the last mark.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  const std::string_view bytes_;
  const std::size_t limit_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<Index> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Index> memo_;
};

}  // namespace shardproof::internal
