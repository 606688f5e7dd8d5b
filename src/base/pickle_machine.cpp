// pickle_machine: opcodes that every reader takes.
#include "base/pickle_machine.h"

#include <bit>

#include "base/pickle_text.h"

namespace shardproof::internal {

PickleMachine::Index PickleMachine::run() {
  while (step()) {
  }
  if (at_ != bytes_.size()) fail("bytes after the end of the pickle");
  if (stack_.size() != 1 || !marks_.empty()) fail("an end with more or less than one value");
  return stack_[0];
}

std::string_view PickleMachine::take(std::uint64_t count) {
  if (count > bytes_.size() - at_) fail("a pickle that is cut short");
  const std::string_view part = bytes_.substr(at_, count);
  at_ += count;
  return part;
}

std::uint64_t PickleMachine::take_number(int width) {
  std::uint64_t number = 0;
  const std::string_view part = take(static_cast<std::uint64_t>(width));
  for (std::size_t i = part.size(); i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(part[i]);
  }
  return number;
}

std::string_view PickleMachine::take_line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) fail("a pickle that is cut short");
  const std::string_view line = take(end - at_);
  ++at_;
  return line;
}

void PickleMachine::no_number(std::string_view line) const {
  fail("'" + text_of_bytes(line.substr(0, 40)) + "' is no number of 64 bits");
}

std::string PickleMachine::limit_text() const {
  return "more than " + std::to_string(limit_ >> 20) + " million values";
}

void PickleMachine::push(Index value) {
  if (stack_.size() >= limit_) fail(limit_text());
  stack_.push_back(value);
}

PickleMachine::Index PickleMachine::pop() {
  if (stack_.size() <= floor()) fail("a value is taken that is not there");
  const Index top = stack_.back();
  stack_.pop_back();
  return top;
}

PickleMachine::Index PickleMachine::top() const {
  if (stack_.size() <= floor()) fail("a value is used that is not there");
  return stack_.back();
}

std::vector<PickleMachine::Index> PickleMachine::pop_items(std::size_t count) {
  std::vector<Index> items(count);
  for (std::size_t i = count; i-- > 0;) items[i] = pop();
  return items;
}

std::vector<PickleMachine::Index> PickleMachine::pop_to_mark() {
  if (marks_.empty()) fail("no mark");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<Index> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

std::vector<PickleMachine::Index> PickleMachine::pairs_of(std::vector<Index> items) const {
  if (items.size() % 2 != 0) fail("a key without a value");
  return items;
}

void PickleMachine::put(std::uint64_t name) {
  if (name >= limit_) fail("a memo of " + limit_text());
  memo_[name] = top();
}

void PickleMachine::get(std::uint64_t name) {
  const auto found = memo_.find(name);
  if (found == memo_.end()) fail("an entry of the memo that is not there");
  push(found->second);
}

// False at the end of the pickle.
bool PickleMachine::step() {
  opcode_at_ = at_;
  const auto opcode = static_cast<unsigned char>(take(1)[0]);
  if (opcode == '.') return false;
  if (opcode == 0x80) {
    const std::uint64_t version = take_number(1);
    if (version > 5) fail("protocol " + std::to_string(version) + " is not known (0 to 5 are)");
  } else if (opcode == 0x95) {  // FRAME: what follows is read as it comes
    if (take_number(8) > bytes_.size() - at_) fail("a frame that is cut short");
  } else if (!step_plain(opcode) && !step_text(opcode) && !step_container(opcode) &&
             !step_memo(opcode) && !step_own(opcode)) {
    unknown(opcode);
  }
  return true;
}

void PickleMachine::take_long(std::uint64_t width) {  // two's complement
  if (width > 8) return wide_integer(width);
  if (width == 0) return integer(0);
  const std::uint64_t number = take_number(static_cast<int>(width));
  const std::uint64_t unused = 64 - 8 * width;
  integer(static_cast<std::int64_t>(number << unused) >> unused);
}

bool PickleMachine::step_plain(unsigned char opcode) {
  switch (opcode) {
    case 'N':
      none();
      return true;
    case 0x88:
    case 0x89:
      boolean(opcode == 0x88);
      return true;
    case 'J':
      integer(static_cast<std::int32_t>(take_number(4)));
      return true;
    case 'K':
      integer(static_cast<std::int64_t>(take_number(1)));
      return true;
    case 'M':
      integer(static_cast<std::int64_t>(take_number(2)));
      return true;
    case 0x8a:
      take_long(take_number(1));
      return true;
    case 0x8b:
      take_long(take_number(4));
      return true;
    case 'G': {
      std::uint64_t bits = 0;
      for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
      real(std::bit_cast<double>(bits));
      return true;
    }
    default:
      return false;
  }
}

bool PickleMachine::step_text(unsigned char opcode) {
  switch (opcode) {
    case 'X':
      text(take(take_number(4)));
      return true;
    case 0x8c:
      text(take(take_number(1)));
      return true;
    case 0x8d:
      text(take(take_number(8)));
      return true;
    case 'B':
    case 'T':
      raw(take(take_number(4)));
      return true;
    case 'C':
    case 'U':
      raw(take(take_number(1)));
      return true;
    case 0x8e:
    case 0x96:
      raw(take(take_number(8)));
      return true;
    default:
      return false;
  }
}

bool PickleMachine::step_container(unsigned char opcode) {
  switch (opcode) {
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case '0':
      pop();
      return true;
    case '1':
      pop_to_mark();
      return true;
    case '2':
      push(top());
      return true;
    case ']':
    case ')':
    case 0x8f:
      list({});
      return true;
    case '}':
      dict({});
      return true;
    case 'l':
    case 't':
    case 0x91:
      list(pop_to_mark());
      return true;
    case 'd':
      dict(pairs_of(pop_to_mark()));
      return true;
    case 0x85:
    case 0x86:
    case 0x87:
      list(pop_items(static_cast<std::size_t>(opcode - 0x84)));
      return true;
    case 'a':
      extend(false, pop_items(1));
      return true;
    case 'e':
    case 0x90:
      extend(false, pop_to_mark());
      return true;
    case 's':
      extend(true, pop_items(2));
      return true;
    case 'u':
      extend(true, pairs_of(pop_to_mark()));
      return true;
    default:
      return false;
  }
}

bool PickleMachine::step_memo(unsigned char opcode) {
  switch (opcode) {
    case 'p':
      put(number_in<std::uint64_t>(take_line()));
      return true;
    case 'q':
      put(take_number(1));
      return true;
    case 'r':
      put(take_number(4));
      return true;
    case 0x94:
      put(memo_.size());
      return true;
    case 'g':
      get(number_in<std::uint64_t>(take_line()));
      return true;
    case 'h':
      get(take_number(1));
      return true;
    case 'j':
      get(take_number(4));
      return true;
    default:
      return false;
  }
}

}  // namespace shardproof::internal
