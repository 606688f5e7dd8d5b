// pickle_objects: every object of a pickle, kept as what would make it.
#include "checkpoint/foreign/pickle_objects.h"

#include "base/error.h"
#include "base/pickle_machine.h"

namespace shardproof::foreign {

using Kind = PickleNode::Kind;

constexpr std::size_t max_nodes = std::size_t{1} << 22;

class ObjectReader : internal::PickleMachine {
 public:
  ObjectReader(std::string_view bytes, const std::string& origin)
      : PickleMachine(bytes, max_nodes), origin_(origin) {}

  PickleObjects read() {
    out_.root_ = run();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const override {
    throw Error(ErrorKind::corrupt, origin_ + ": pickle, byte " + std::to_string(opcode_at()),
                what + "; expected a pickle as PyTorch writes them");
  }
  [[noreturn]] void unknown(unsigned char opcode) const override {
    fail("the opcode " + std::to_string(opcode) + " is not one of them");
  }

  void add(PickleNode node) {
    if (out_.nodes_.size() >= max_nodes) fail(limit_text());
    push(static_cast<Index>(out_.nodes_.size()));
    out_.nodes_.push_back(std::move(node));
  }
  void add_global(std::string name) {
    out_.globals_.insert(name);
    add({.kind = Kind::global, .text = std::move(name)});
  }
  void add_call(Index callable, Index arguments) {
    add({.kind = Kind::call, .items = {callable, arguments}});
  }
  const std::string& text_at(Index index) const {
    if (out_.nodes_[index].kind != Kind::text) fail("a name that is no text");
    return out_.nodes_[index].text;
  }

  void none() override { add({}); }
  void boolean(bool value) override { add({.kind = Kind::boolean, .integer = value ? 1 : 0}); }
  void integer(std::int64_t value) override { add({.kind = Kind::integer, .integer = value}); }
  // Random states, hashes: no tensor needs them, and they are kept as their bytes.
  void wide_integer(std::uint64_t width) override { text(take(width)); }
  void real(double value) override { add({.kind = Kind::real, .real = value}); }
  void text(std::string_view bytes) override {
    add({.kind = Kind::text, .text = std::string(bytes)});
  }
  void raw(std::string_view bytes) override { text(bytes); }
  void list(std::vector<Index> items) override {
    add({.kind = Kind::list, .items = std::move(items)});
  }
  void dict(std::vector<Index> items) override {
    add({.kind = Kind::dict, .items = std::move(items)});
  }
  void extend(bool pairs, const std::vector<Index>& items) override {
    PickleNode& node = out_.nodes_[top()];
    const bool fits = node.kind == Kind::call || node.kind == (pairs ? Kind::dict : Kind::list);
    if (!fits) fail("items for something that is not such a container");
    auto& to = pairs && node.kind == Kind::call ? node.pairs : node.items;
    to.insert(to.end(), items.begin(), items.end());
  }
  bool step_own(unsigned char opcode) override;

  const std::string& origin_;
  PickleObjects out_;
};

bool ObjectReader::step_own(unsigned char opcode) {
  switch (opcode) {
    case 'c': {
      const std::string module(take_line());
      add_global(module + "." + std::string(take_line()));
      return true;
    }
    case 0x93: {
      const std::vector<Index> names = pop_items(2);
      add_global(text_at(names[0]) + "." + text_at(names[1]));
      return true;
    }
    case 'R':
    case 0x81: {
      const std::vector<Index> parts = pop_items(2);
      add_call(parts[0], parts[1]);
      return true;
    }
    case 0x92: {
      const std::vector<Index> parts = pop_items(3);
      add_call(parts[0], parts[1]);
      return true;
    }
    case 'Q': {
      const Index id = pop();
      add({.kind = Kind::global, .text = std::string(persistent_id)});
      add_call(pop(), id);
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

PickleObjects PickleObjects::parse(std::string_view bytes, const std::string& origin) {
  return ObjectReader(bytes, origin).read();
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
