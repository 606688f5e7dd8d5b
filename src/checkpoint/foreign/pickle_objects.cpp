// pickle_objects: the stack machine, every object kept as what would make it.
#include "checkpoint/foreign/pickle_objects.h"

#include <bit>
#include <charconv>
#include <unordered_map>

#include "base/error.h"

namespace shardproof::foreign {

using Kind = PickleNode::Kind;
using Index = std::uint32_t;

constexpr std::size_t max_nodes = std::size_t{1} << 22;

class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, const std::string& origin)
      : bytes_(bytes), origin_(origin) {}

  PickleObjects run() {
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("an end with more or less than one value");
    if (at_ != bytes_.size()) fail("bytes after the end of the pickle");
    out_.root_ = stack_[0];
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::corrupt, origin_ + ": pickle, byte " + std::to_string(opcode_at_),
                what + "; expected a pickle as PyTorch writes them");
  }
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("it is cut short");
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }
  std::uint64_t take_number(int width) {
    std::uint64_t number = 0;
    const std::string_view part = take(static_cast<std::uint64_t>(width));
    for (std::size_t i = part.size(); i-- > 0;) {
      number = number << 8 | static_cast<unsigned char>(part[i]);
    }
    return number;
  }
  std::string_view take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("it is cut short");
    const std::string_view line = take(end - at_);
    ++at_;
    return line;
  }

  void push(PickleNode node) {
    if (out_.nodes_.size() >= max_nodes) fail("more than 4 million values");
    stack_.push_back(static_cast<Index>(out_.nodes_.size()));
    out_.nodes_.push_back(std::move(node));
  }
  void push_integer(std::int64_t value, Kind kind = Kind::integer) {
    push({.kind = kind, .integer = value});
  }
  void push_text(std::string_view text) { push({.kind = Kind::text, .text = std::string(text)}); }
  void push_list(std::vector<Index> items) {
    push({.kind = Kind::list, .items = std::move(items)});
  }
  void push_global(std::string name) {
    out_.globals_.insert(name);
    push({.kind = Kind::global, .text = std::move(name)});
  }
  void push_call(Index callable, Index arguments) {
    push({.kind = Kind::call, .items = {callable, arguments}});
  }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Index top() const {
    if (stack_.size() <= floor()) fail("a value is used that is not there");
    return stack_.back();
  }
  Index pop() {
    const Index index = top();
    stack_.pop_back();
    return index;
  }
  std::vector<Index> pop_items(std::size_t count) {
    std::vector<Index> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  std::vector<Index> pop_to_mark() {
    if (marks_.empty()) fail("no mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  const std::string& text_at(Index index) const {
    if (out_.nodes_[index].kind != Kind::text) fail("a name that is no text");
    return out_.nodes_[index].text;
  }
  void extend(bool pairs, const std::vector<Index>& items) {
    PickleNode& node = out_.nodes_[top()];
    if (pairs && items.size() % 2 != 0) fail("a key without a value");
    const bool fits = node.kind == Kind::call || node.kind == (pairs ? Kind::dict : Kind::list);
    if (!fits) fail("items for something that is not such a container");
    auto& to = pairs && node.kind == Kind::call ? node.pairs : node.items;
    to.insert(to.end(), items.begin(), items.end());
  }
  void put(std::uint64_t name) { memo_[name] = top(); }
  void get(std::uint64_t name) {
    const auto found = memo_.find(name);
    if (found == memo_.end()) fail("an entry of the memo that is not there");
    stack_.push_back(found->second);
  }
  std::uint64_t line_number() {
    const std::string_view line = take_line();
    std::uint64_t number = 0;
    const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (code != std::errc() || end != line.data() + line.size()) fail("no number");
    return number;
  }

  bool step();
  bool step_plain(unsigned char opcode);
  bool step_container(unsigned char opcode);
  bool step_object(unsigned char opcode);
  bool step_memo(unsigned char opcode);
  void push_long(std::uint64_t width);

  const std::string_view bytes_;
  const std::string& origin_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  PickleObjects out_;
  std::vector<Index> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Index> memo_;
};

bool PickleMachine::step() {
  opcode_at_ = at_;
  const auto opcode = static_cast<unsigned char>(take(1)[0]);
  if (opcode == '.') return false;
  if (opcode == 0x80) {
    if (take_number(1) > 5) fail("a protocol that is not known (0 to 5 are)");
  } else if (opcode == 0x95) {
    if (take_number(8) > bytes_.size() - at_) fail("a frame that is cut short");
  } else if (!step_plain(opcode) && !step_container(opcode) && !step_object(opcode) &&
             !step_memo(opcode)) {
    fail("the opcode " + std::to_string(opcode) + " is not one of them");
  }
  return true;
}

// Wider ones (random states, hashes) are kept as their bytes: no tensor needs them.
void PickleMachine::push_long(std::uint64_t width) {
  const std::string_view part = take(width);
  if (width > 8) return push_text(part);
  std::uint64_t number = 0;
  for (std::size_t i = part.size(); i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(part[i]);
  }
  const std::uint64_t unused = 64 - 8 * width;
  push_integer(width == 0 ? 0 : static_cast<std::int64_t>(number << unused) >> unused);
}

bool PickleMachine::step_plain(unsigned char opcode) {
  switch (opcode) {
    case 'N':
      push({});
      return true;
    case 0x88:
    case 0x89:
      push_integer(opcode == 0x88 ? 1 : 0, Kind::boolean);
      return true;
    case 'J':
      push_integer(static_cast<std::int32_t>(take_number(4)));
      return true;
    case 'K':
      push_integer(static_cast<std::int64_t>(take_number(1)));
      return true;
    case 'M':
      push_integer(static_cast<std::int64_t>(take_number(2)));
      return true;
    case 0x8a:
      push_long(take_number(1));
      return true;
    case 0x8b:
      push_long(take_number(4));
      return true;
    case 'G': {
      std::uint64_t bits = 0;
      for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
      push({.kind = Kind::real, .real = std::bit_cast<double>(bits)});
      return true;
    }
    case 'X':
    case 'B':
    case 'T':
      push_text(take(take_number(4)));
      return true;
    case 0x8c:
    case 'C':
    case 'U':
      push_text(take(take_number(1)));
      return true;
    case 0x8d:
    case 0x8e:
    case 0x96:
      push_text(take(take_number(8)));
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
      stack_.push_back(top());
      return true;
    case ']':
    case ')':
    case 0x8f:
      push_list({});
      return true;
    case '}':
      push({.kind = Kind::dict});
      return true;
    case 'l':
    case 't':
    case 0x91:
      push_list(pop_to_mark());
      return true;
    case 'd': {
      std::vector<Index> items = pop_to_mark();
      if (items.size() % 2 != 0) fail("a key without a value");
      push({.kind = Kind::dict, .items = std::move(items)});
      return true;
    }
    case 0x85:
    case 0x86:
    case 0x87:
      push_list(pop_items(static_cast<std::size_t>(opcode - 0x84)));
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
      extend(true, pop_to_mark());
      return true;
    default:
      return false;
  }
}

bool PickleMachine::step_object(unsigned char opcode) {
  switch (opcode) {
    case 'c': {
      const std::string module(take_line());
      push_global(module + "." + std::string(take_line()));
      return true;
    }
    case 0x93: {
      const std::vector<Index> names = pop_items(2);
      push_global(text_at(names[0]) + "." + text_at(names[1]));
      return true;
    }
    case 'R':
    case 0x81: {
      const std::vector<Index> parts = pop_items(2);
      push_call(parts[0], parts[1]);
      return true;
    }
    case 0x92: {
      const std::vector<Index> parts = pop_items(3);
      push_call(parts[0], parts[1]);
      return true;
    }
    case 'Q': {
      const Index id = pop();
      push({.kind = Kind::global, .text = std::string(persistent_id)});
      push_call(pop(), id);
      return true;
    }
    case 'b': {
      const Index state = pop();
      PickleNode& node = out_.nodes_[top()];
      if (node.kind != Kind::call) fail("a state for something that was not built");
      node.state = state;
      return true;
    }
    default:
      return false;
  }
}

bool PickleMachine::step_memo(unsigned char opcode) {
  switch (opcode) {
    case 'p':
      put(line_number());
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
      get(line_number());
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

PickleObjects PickleObjects::parse(std::string_view bytes, const std::string& origin) {
  return PickleMachine(bytes, origin).run();
}

const PickleNode* PickleObjects::find(const PickleNode& dict, std::string_view key) const {
  const auto& pairs = dict.kind == Kind::call ? dict.pairs : dict.items;
  if (dict.kind != Kind::call && dict.kind != Kind::dict) return nullptr;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const PickleNode& name = at(pairs[i]);
    if (name.kind == Kind::text && name.text == key) return &at(pairs[i + 1]);
  }
  return nullptr;
}

const PickleNode* PickleObjects::state(const PickleNode& call) const {
  return call.state == PickleNode::no_state ? nullptr : &at(call.state);
}

bool PickleObjects::is_call(const PickleNode& node, std::string_view global) const {
  return node.kind == Kind::call && at(node.items.at(0)).kind == Kind::global &&
         at(node.items[0]).text == global;
}

const PickleNode& PickleObjects::arguments(const PickleNode& call) const {
  return at(call.items.at(1));
}

}  // namespace shardproof::foreign
