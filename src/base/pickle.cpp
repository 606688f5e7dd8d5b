// pickle: what is plain data of a pickle, without the opcodes that make it a program.
#include "base/pickle.h"

#include "base/error.h"
#include "base/pickle_graph.h"
#include "base/pickle_machine.h"
#include "base/pickle_text.h"

namespace shardproof {

namespace {

using internal::max_pickle_values;
using internal::PickleGraph;
using internal::PickleValue;

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

class PlainReader : internal::PickleMachine {
 public:
  PlainReader(std::string_view bytes, const std::string& origin)
      : PickleMachine(bytes, max_pickle_values), origin_(origin) {}

  Json read() {
    const Index root = run();
    return graph_.to_json(root, origin_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const override {
    throw Error(ErrorKind::bad_input, origin_ + ", byte " + std::to_string(opcode_at()),
                what + "; expected a pickle of plain data");
  }
  [[noreturn]] void unknown(unsigned char opcode) const override {
    const char* refused = name_of_refused(opcode);
    fail(refused != nullptr ? "the opcode " + std::string(refused) + ", which is not data"
                            : "the byte " + std::to_string(opcode) + " is no opcode");
  }

  void add(PickleValue value) {
    if (graph_.size() >= max_pickle_values) fail(limit_text());
    push(static_cast<Index>(graph_.size()));
    graph_.add(std::move(value));
  }
  void add_plain(Json plain) { add({PickleValue::Kind::plain, std::move(plain)}); }

  void none() override { add_plain(nullptr); }
  void boolean(bool value) override { add_plain(value); }
  void integer(std::int64_t value) override { add_plain(value); }
  void wide_integer(std::uint64_t) override { fail("an integer of more than 64 bits"); }
  void real(double value) override { add_plain(value); }
  void text(std::string_view bytes) override {
    if (!is_utf8(bytes)) fail("a text that is not UTF-8");
    add_plain(std::string(bytes));
  }
  void raw(std::string_view bytes) override { add_plain(text_of_bytes(bytes)); }
  void list(std::vector<Index> items) override {
    add({PickleValue::Kind::list, {}, std::move(items)});
  }
  void dict(std::vector<Index> items) override {
    add({PickleValue::Kind::dict, {}, std::move(items)});
  }
  void extend(bool pairs, const std::vector<Index>& items) override {
    PickleValue& container = graph_.at(top());
    if (container.kind != (pairs ? PickleValue::Kind::dict : PickleValue::Kind::list)) {
      fail("items for something that is not such a container");
    }
    container.items.insert(container.items.end(), items.begin(), items.end());
  }
  bool step_own(unsigned char opcode) override;

  const std::string& origin_;
  PickleGraph graph_;
};

// What protocol 0 writes as lines.
bool PlainReader::step_own(unsigned char opcode) {
  switch (opcode) {
    case 'F':
      real(number_in<double>(take_line()));
      return true;
    case 'I': {
      const std::string_view line = take_line();
      if (line == "00" || line == "01") {
        boolean(line == "01");
      } else {
        integer(number_in<std::int64_t>(line));
      }
      return true;
    }
    case 'L': {
      std::string_view line = take_line();
      if (line.ends_with('L')) line.remove_suffix(1);
      integer(number_in<std::int64_t>(line));
      return true;
    }
    case 'S':
    case 'V': {
      const auto found = opcode == 'S' ? unquoted(take_line()) : unescaped_unicode(take_line());
      if (!found) fail("a text that is not quoted as Python does");
      raw(*found);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

Json parse_pickle(std::string_view bytes, const std::string& origin) {
  return PlainReader(bytes, origin).read();
}

}  // namespace shardproof
