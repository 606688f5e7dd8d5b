// pickle_objects: the pickles of PyTorch as a graph of what they would build. Classes and functions
// stay names, calls stay lists of arguments: nothing is executed or imported (base/pickle.h reads
// plain data and refuses the rest). Protocols 0 to 5, what the C pickler and torch write.
// Thread rule: immutable after parse.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::foreign {

struct PickleNode {
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,  // str and bytes
    list,  // tuple, list and set
    dict,
    global,  // text: "module.name"
    call     // items: what is called, and its arguments; then what was set on the result
  };
  static constexpr std::uint32_t no_state = ~0U;

  Kind kind = Kind::none;
  std::int64_t integer = 0;  // of a boolean, too
  double real = 0;
  std::string text{};
  std::vector<std::uint32_t> items{};  // of a dict: key, value, ...; of a persistent id: one call
  std::vector<std::uint32_t> pairs{};  // of a call: what was set like a dict's
  std::uint32_t state = no_state;      // of a call: BUILD
};

class PickleObjects {
 public:
  // Error corrupt naming `origin` and the byte. `whole`: nothing may follow the end.
  static PickleObjects parse(std::string_view bytes, const std::string& origin);

  const PickleNode& root() const { return nodes_.at(root_); }
  const PickleNode& at(std::uint32_t index) const { return nodes_.at(index); }
  const std::set<std::string>& globals() const { return globals_; }

  // The value of a text key of a dict (or of what was set on a call); null when there is none.
  const PickleNode* find(const PickleNode& dict, std::string_view key) const;
  // The state of a call as a dict or tuple; null without one.
  const PickleNode* state(const PickleNode& call) const;
  // Whether it is a call of this class or function (its arguments then are items[1]'s).
  bool is_call(const PickleNode& node, std::string_view global) const;
  const PickleNode& arguments(const PickleNode& call) const;

 private:
  friend class ObjectReader;
  std::vector<PickleNode> nodes_;
  std::uint32_t root_ = 0;
  std::set<std::string> globals_;
};

constexpr std::string_view persistent_id = "persistent id";  // the global of a persistent id's call

}  // namespace shardproof::foreign
