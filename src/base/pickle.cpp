// pickle: the stack machine of pickles, without the opcodes that make it a program.
#include "base/pickle.h"

#include <bit>
#include <charconv>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/pickle_graph.h"
#include "base/pickle_text.h"

namespace shardproof {

namespace {

using internal::max_pickle_values;

// Opcodes that would name, import, call or build something, and those for data outside the pickle.
const char* name_of_refused(unsigned char opcode) {
  switch (opcode) {
    case 'c':
      return "GLOBAL";
    case 'R':
      return "REDUCE";
    case 'b':
      return "BUILD";
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 'P':
      return "PERSID";
    case 'Q':
      return "BINPERSID";
    case 0x81:
      return "NEWOBJ";
    case 0x82:
      return "EXT1";
    case 0x83:
      return "EXT2";
    case 0x84:
      return "EXT4";
    case 0x92:
      return "NEWOBJ_EX";
    case 0x93:
      return "STACK_GLOBAL";
    case 0x97:
      return "NEXT_BUFFER";
    case 0x98:
      return "READONLY_BUFFER";
    default:
      return nullptr;
  }
}

using internal::PickleGraph;
using internal::PickleValue;

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  Json read() {
    while (step()) {
    }
    if (at_ != bytes_.size()) fail("bytes after the end of the pickle");
    if (stack_.size() != 1 || !marks_.empty()) fail("an end with more or less than one value");
    return graph_.to_json(stack_[0], origin_);
  }

 private:
  using Index = std::uint32_t;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::bad_input, origin_ + ", byte " + std::to_string(opcode_at_),
                what + "; expected a pickle of plain data");
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("a pickle that is cut short");
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }
  std::uint64_t take_number(int width) {  // little-endian
    std::uint64_t number = 0;
    const std::string_view part = take(static_cast<std::uint64_t>(width));
    for (int i = width; i-- > 0;) {
      number = number << 8 | static_cast<unsigned char>(part[static_cast<std::size_t>(i)]);
    }
    return number;
  }
  std::string_view take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("a pickle that is cut short");
    const std::string_view line = take(end - at_);
    ++at_;
    return line;
  }

  void push(PickleValue value) {
    if (graph_.size() >= max_pickle_values) fail("more than 2 million values");
    stack_.push_back(static_cast<Index>(graph_.size()));
    graph_.add(std::move(value));
  }
  void push_plain(Json plain) { push({PickleValue::Kind::plain, std::move(plain)}); }
  void push_text(std::string_view bytes) {
    if (!is_utf8(bytes)) fail("a text that is not UTF-8");
    push_plain(std::string(bytes));
  }
  void push_bytes(std::string_view bytes) { push_plain(text_of_bytes(bytes)); }

  // How much of the stack belongs to what is above the last mark.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Index pop() {
    if (stack_.size() <= floor()) fail("a value is taken that is not there");
    const Index top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Index top() const {
    if (stack_.size() <= floor()) fail("a value is used that is not there");
    return stack_.back();
  }
  std::vector<Index> pop_to_mark() {
    if (marks_.empty()) fail("no mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<Index> pop_items(std::size_t count) {
    std::vector<Index> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  void extend(PickleValue::Kind kind, const std::vector<Index>& items) {
    PickleValue& container = graph_.at(top());
    if (container.kind != kind) fail("items for something that is not such a container");
    if (kind == PickleValue::Kind::dict && items.size() % 2 != 0) fail("a key without a value");
    container.items.insert(container.items.end(), items.begin(), items.end());
  }

  void put(std::uint64_t name) {
    if (name >= max_pickle_values) fail("a memo of more than 2 million values");
    memo_[name] = top();
  }
  void get(std::uint64_t name) {
    const auto found = memo_.find(name);
    if (found == memo_.end()) fail("an entry of the memo that is not there");
    stack_.push_back(found->second);
    if (stack_.size() > max_pickle_values) fail("more than 2 million values");
  }

  template <typename Number>
  Number number_in(std::string_view line) {
    Number number{};
    const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (code != std::errc() || end != line.data() + line.size()) {
      fail("'" + text_of_bytes(line.substr(0, 40)) + "' is no number of 64 bits");
    }
    return number;
  }
  void push_long(std::uint64_t width) {  // two's complement
    if (width > 8) fail("an integer of more than 64 bits");
    if (width == 0) return push_plain(0);
    std::uint64_t number = take_number(static_cast<int>(width));
    const std::uint64_t unused = 64 - 8 * width;
    push_plain(static_cast<std::int64_t>(number << unused) >> unused);
  }

  bool step();
  bool step_plain(unsigned char opcode);
  bool step_text(unsigned char opcode);
  bool step_container(unsigned char opcode);
  bool step_memo(unsigned char opcode);
  void protocol();

  const std::string_view bytes_;
  const std::string& origin_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  PickleGraph graph_;
  std::vector<Index> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Index> memo_;
};

// False at the end of the pickle.
bool Reader::step() {
  opcode_at_ = at_;
  const auto opcode = static_cast<unsigned char>(take(1)[0]);
  if (opcode == '.') return false;
  if (opcode == 0x80) {
    protocol();
  } else if (opcode == 0x95) {  // FRAME: what follows is read as it comes
    if (take_number(8) > bytes_.size() - at_) fail("a frame that is cut short");
  } else if (!step_plain(opcode) && !step_text(opcode) && !step_container(opcode) &&
             !step_memo(opcode)) {
    const char* refused = name_of_refused(opcode);
    fail(refused != nullptr ? "the opcode " + std::string(refused) + ", which is not data"
                            : "the byte " + std::to_string(opcode) + " is no opcode");
  }
  return true;
}

void Reader::protocol() {
  const std::uint64_t version = take_number(1);
  if (version > 5) fail("protocol " + std::to_string(version) + " is not known (0 to 5 are)");
}

bool Reader::step_plain(unsigned char opcode) {
  switch (opcode) {
    case 'N':
      push_plain(nullptr);
      return true;
    case 0x88:
      push_plain(true);
      return true;
    case 0x89:
      push_plain(false);
      return true;
    case 'J':
      push_plain(static_cast<std::int32_t>(take_number(4)));
      return true;
    case 'K':
      push_plain(static_cast<std::int64_t>(take_number(1)));
      return true;
    case 'M':
      push_plain(static_cast<std::int64_t>(take_number(2)));
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
      push_plain(std::bit_cast<double>(bits));
      return true;
    }
    case 'F':
      push_plain(number_in<double>(take_line()));
      return true;
    case 'I': {
      const std::string_view line = take_line();
      if (line == "00" || line == "01") {
        push_plain(line == "01");
      } else {
        push_plain(number_in<std::int64_t>(line));
      }
      return true;
    }
    case 'L': {
      std::string_view line = take_line();
      if (line.ends_with('L')) line.remove_suffix(1);
      push_plain(number_in<std::int64_t>(line));
      return true;
    }
    default:
      return false;
  }
}

bool Reader::step_text(unsigned char opcode) {
  switch (opcode) {
    case 'X':
      push_text(take(take_number(4)));
      return true;
    case 0x8c:
      push_text(take(take_number(1)));
      return true;
    case 0x8d:
      push_text(take(take_number(8)));
      return true;
    case 'B':
    case 'T':
      push_bytes(take(take_number(4)));
      return true;
    case 'C':
    case 'U':
      push_bytes(take(take_number(1)));
      return true;
    case 0x8e:
    case 0x96:
      push_bytes(take(take_number(8)));
      return true;
    case 'S':
    case 'V': {
      const auto text = opcode == 'S' ? unquoted(take_line()) : unescaped_unicode(take_line());
      if (!text) fail("a text that is not quoted as Python does");
      push_bytes(*text);
      return true;
    }
    default:
      return false;
  }
}

bool Reader::step_container(unsigned char opcode) {
  using enum PickleValue::Kind;
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
      push({list});
      return true;
    case '}':
      push({dict});
      return true;
    case 'l':
    case 't':
    case 0x91:
      push({list, {}, pop_to_mark()});
      return true;
    case 'd': {
      std::vector<Index> items = pop_to_mark();
      if (items.size() % 2 != 0) fail("a key without a value");
      push({dict, {}, std::move(items)});
      return true;
    }
    case 0x85:
    case 0x86:
    case 0x87:
      push({list, {}, pop_items(static_cast<std::size_t>(opcode - 0x84))});
      return true;
    case 'a':
      extend(list, pop_items(1));
      return true;
    case 'e':
    case 0x90:
      extend(list, pop_to_mark());
      return true;
    case 's':
      extend(dict, pop_items(2));
      return true;
    case 'u':
      extend(dict, pop_to_mark());
      return true;
    default:
      return false;
  }
}

bool Reader::step_memo(unsigned char opcode) {
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

}  // namespace

Json parse_pickle(std::string_view bytes, const std::string& origin) {
  return Reader(bytes, origin).read();
}

}  // namespace shardproof
