// The keys of a subject file, and what must stand beside what.
#include "harness/judge/subject_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>

#include "base/check.h"
#include "base/digest.h"
#include "base/edit_distance.h"
#include "base/error.h"
#include "harness/judge/subject_text.h"

namespace shardproof {
namespace {

constexpr std::size_t longest_name = 100;
constexpr std::size_t longest_match = 1000;  // std::regex recurses on its text

[[noreturn]] void refuse(const std::string& place, const std::string& detail) {
  throw Error(ErrorKind::bad_input, place, detail);
}

// JSON has no nan.
std::string printed(const Json& value) {
  const bool odd = value.is_number_float() && !std::isfinite(value.get<double>());
  return odd ? fmt::format("{}", value.get<double>()) : value.dump();
}

[[noreturn]] void refuse_value(const SubjectEntry& entry, const std::string& expected) {
  refuse(entry.place,
         fmt::format("{}: found {}; expected {}", entry.key(), printed(entry.value), expected));
}

using Take = std::function<void(const SubjectEntry&)>;

Take text(std::string& member) {
  return [&member](const SubjectEntry& entry) {
    if (!entry.value.is_string()) refuse_value(entry, "a text");
    member = entry.value.get<std::string>();
  };
}

Take choice(std::string& member, const std::vector<std::string>& choices) {
  return [&member, choices](const SubjectEntry& entry) {
    const bool known = entry.value.is_string() &&
                       std::find(choices.begin(), choices.end(), entry.value) != choices.end();
    if (!known) refuse_value(entry, fmt::format("one of {}", fmt::join(choices, ", ")));
    member = entry.value.get<std::string>();
  };
}

template <typename Integer>
Take integer(Integer& member, std::int64_t lo, std::int64_t hi) {
  return [&member, lo, hi](const SubjectEntry& entry) {
    const bool good = entry.value.is_number_integer() && entry.value.get<std::int64_t>() >= lo &&
                      entry.value.get<std::int64_t>() <= hi;
    if (!good) refuse_value(entry, fmt::format("an integer from {} to {}", lo, hi));
    member = entry.value.get<Integer>();
  };
}

Take seconds(double& member) {
  return [&member](const SubjectEntry& entry) {
    const double value = entry.value.is_number() ? entry.value.get<double>() : 0;
    if (!(value > 0 && value <= 86400)) refuse_value(entry, "seconds, more than 0, at most 86400");
    member = value;
  };
}

template <typename Flag>
Take flag(Flag& member) {
  return [&member](const SubjectEntry& entry) {
    if (!entry.value.is_boolean()) refuse_value(entry, "true or false");
    member = entry.value.get<bool>();
  };
}

Take check_names(std::optional<std::vector<std::string>>& member) {
  return [&member](const SubjectEntry& entry) {
    std::vector<std::string> names;
    for (const Json& item : entry.value.is_array() ? entry.value : Json::array({nullptr})) {
      if (!item.is_string() || !is_subject_check(item.get<std::string>())) {
        refuse_value(entry, fmt::format("a list of {}", fmt::join(subject_checks, ", ")));
      }
      names.push_back(item.get<std::string>());
    }
    member = names;
  };
}

// What stands in braces and is no shell variable.
std::vector<std::string> placeholders(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; (at = text.find('{', at)) != std::string::npos; ++at) {
    const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", at + 1);
    const bool closed = end != std::string::npos && text[end] == '}' && end > at + 1;
    if (closed && (at == 0 || text[at - 1] != '$'))
      out.push_back(text.substr(at + 1, end - at - 1));
  }
  return out;
}

// It names folders.
bool is_layout_name(const std::string& name) {
  const auto legal = [](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= longest_name &&
         std::all_of(name.begin(), name.end(), legal);
}

using Keys = std::vector<std::pair<std::string, Take>>;

void take(const Keys& keys, const SubjectEntry& entry, const std::string& prefix) {
  const std::string name =
      entry.key().size() > prefix.size() ? entry.key().substr(prefix.size()) : "";
  std::vector<std::string> known;
  const std::string* nearest = nullptr;
  for (const auto& [key, taken] : keys) {
    if (key == name) return taken(entry);
    known.push_back(key);
    if (edit_distance(key, name) <= 2) nearest = &key;
  }
  refuse(entry.place, fmt::format("unknown key {}; expected {}", entry.key(),
                                  nearest != nullptr ? prefix + *nearest
                                                     : fmt::format("one of {}{}", prefix,
                                                                   fmt::join(known, ", "))));
}

class Reader {
 public:
  explicit Reader(const std::string& file) { subject_.file = file; }

  void take_entry(const SubjectEntry& entry) {
    places_[entry.key()] = entry.place;
    // JSON's texts, numbers and lists are TOML's too. The last of a key counts.
    std::erase_if(values_, [&](const auto& each) { return each.first == entry.key(); });
    values_.emplace_back(entry.key(), entry.value.dump());
    const std::string& section = entry.path.front();
    if (section == "subject" && entry.path.size() == 2) return take(keys_, entry, "subject.");
    if (section == "layout" && entry.path.size() >= 2) return take_layout(entry);
    refuse(entry.place,
           fmt::format("unknown key {}; expected [subject] and [layout.NAME]", entry.key()));
  }

  Subject finish() {
    check_presence();
    check_launch();
    check_layouts();
    check_steps();
    for (const auto& [key, value] : values_) subject_.text += fmt::format("{} = {}\n", key, value);
    return std::move(subject_);
  }

 private:
  std::string place(const std::string& key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? subject_.file : found->second;
  }

  SubjectLayout& layout(const SubjectEntry& entry) {
    const std::string& name = entry.path[1];
    if (!is_layout_name(name)) {
      refuse(entry.place, fmt::format("layout \"{}\": expected a name of letters, digits, _ and -, "
                                      "of at most {} characters",
                                      name.substr(0, longest_name), longest_name));
    }
    for (SubjectLayout& each : subject_.layouts) {
      if (each.name == name) return each;
    }
    subject_.layouts.emplace_back().name = name;
    places_.emplace("layout." + name, entry.place);
    return subject_.layouts.back();
  }

  void take_layout(const SubjectEntry& entry) {
    SubjectLayout& into = layout(entry);
    const std::string prefix = "layout." + into.name + ".";
    if (entry.path.size() == 2) return;  // an empty table: its ranks are missed later
    if (entry.path[2] == "expect" && entry.path.size() == 4) {
      if (!is_subject_check(entry.path[3])) {
        refuse(entry.place, fmt::format("{}: unknown check {}; expected one of {}", entry.key(),
                                        entry.path[3], fmt::join(subject_checks, ", ")));
      }
      return text(into.expect[entry.path[3]])(entry);
    }
    if (entry.path[2] == "expect") {
      refuse(entry.place, fmt::format("{}: expected CHECK = \"why it must fail\"", entry.key()));
    }
    constexpr int most_ranks = 4096;
    take({{"ranks", integer(into.ranks, 1, most_ranks)},
          {"args", text(into.args)},
          {"bitwise", flag(into.bitwise)},
          {"reshard", flag(into.reshard)},
          {"checks", check_names(into.checks)}},
         entry, prefix);
  }

  void check_presence() {
    if (subject_.launch.empty()) {
      refuse(place("subject.launch"),
             "subject.launch is missing; add the command that starts the program, such as launch = "
             "\"torchrun --nproc-per-node {ranks} train.py {args} --steps {steps}\"");
    }
    if (subject_.checkpoint.empty()) {
      refuse(subject_.file,
             "subject.checkpoint is missing; add checkpoint = \"dcp\", "
             "\"safetensors\", \"torch\", \"shardproof\", or \"none\" where the "
             "program saves none");
    }
    if (subject_.saves() && subject_.resume.empty()) {
      refuse(place("subject.resume"),
             fmt::format("subject.resume is missing while checkpoint is \"{}\"; add the words that "
                         "make a run continue, such as resume = \"--resume\"",
                         subject_.checkpoint));
    }
    if (!reshard_) {
      reshard_ = subject_.checkpoint == "dcp" || subject_.checkpoint == "shardproof";
    }
    subject_.reshard = *reshard_ && subject_.saves();
  }

  void check_launch() const {
    const auto has = [&](const std::string& name) { return subject_.has_placeholder(name); };
    const std::string where = place("subject.launch");
    const auto need = [&](const std::string& name, const std::string& meaning) {
      if (has(name)) return;
      refuse(where, fmt::format("subject.launch has no {{{}}}; add it where {}", name, meaning));
    };
    static const std::vector<std::string> known = {"ranks", "args", "steps",  "dtype",
                                                   "save",  "ckpt", "resume", "scalars"};
    for (const std::string& name : placeholders(subject_.launch)) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        refuse(where, fmt::format("subject.launch: unknown placeholder {{{}}}; expected {{{}}}",
                                  name, fmt::join(known, "}, {")));
      }
    }
    for (const auto& [key, value] : values_) check_words(key, value);
    need("ranks", "the number of ranks goes");
    need("args", "a layout's args go");
    need("steps", "the number of steps goes");
    if (!subject_.float64.empty()) need("dtype", "float64's words go");
    for (const char* name : {"ckpt", "save", "resume"}) {
      if (subject_.saves()) {
        need(name, name == std::string("ckpt")   ? "the checkpoint's path goes"
                   : name == std::string("save") ? "the step of the save goes"
                                                 : "resume's words go");
      } else if (has(name)) {
        refuse(where, fmt::format("subject.launch has {{{}}} while checkpoint is \"none\"; say "
                                  "what it saves, or take {{{}}} out",
                                  name, name));
      }
    }
  }

  // What is put into the launch may have placeholders too, of these.
  void check_words(const std::string& key, const std::string& words) const {
    if (key == "subject.launch" || key == "subject.match") return;
    if (key.starts_with("layout.") && !key.ends_with(".args")) return;
    std::vector<std::string> known = {"ranks", "steps"};
    if (subject_.saves()) known.insert(known.end(), {"save", "ckpt"});
    for (const std::string& name : placeholders(words)) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      refuse(place(key), fmt::format("{}: unknown placeholder {{{}}}; expected {{{}}}", key, name,
                                     fmt::join(known, "}, {")));
    }
  }

  void check_layouts() const {
    const auto named = [&](const std::string& name) {
      return std::any_of(subject_.layouts.begin(), subject_.layouts.end(),
                         [&](const SubjectLayout& each) { return each.name == name; });
    };
    for (const SubjectLayout& each : subject_.layouts) {
      if (each.ranks == 0) {
        refuse(place("layout." + each.name),
               fmt::format("layout.{} has no ranks; add ranks = 2, or how many it runs on",
                           each.name));
      }
      for (const auto& [check, why] : each.expect) {
        const std::string key = fmt::format("layout.{}.expect.{}", each.name, check);
        if (why.empty()) refuse(place(key), key + " is empty; say why it must fail");
        if (!each.asks(check)) {
          refuse(place(key), fmt::format("{}: {} is not in layout.{}.checks; add it there", key,
                                         check, each.name));
        }
      }
    }
    if (!named("ref")) {
      refuse(subject_.file,
             "there is no [layout.ref]; add the layout that all are compared with, "
             "such as ranks = 1, args = \"\"");
    }
    if (!subject_.kill.empty() && !named(subject_.kill)) {
      refuse(place("subject.kill"), fmt::format("subject.kill: there is no [layout.{}]; expected "
                                                "the name of a layout",
                                                subject_.kill));
    }
  }

  void check_steps() const {
    // Lost moments show in the second step after a resume only.
    if (subject_.save + 2 > subject_.steps) {
      refuse(place(places_.contains("subject.save") ? "subject.save" : "subject.steps"),
             fmt::format("subject.save is {} of {} steps; expected at least 2 steps behind it",
                         subject_.save, subject_.steps));
    }
    if (subject_.match.size() > longest_match) {
      refuse(place("subject.match"), fmt::format("subject.match has {} characters; expected at "
                                                 "most {}",
                                                 subject_.match.size(), longest_match));
    }
    try {
      const std::regex compiled(subject_.match);
    } catch (const std::regex_error& error) {
      refuse(place("subject.match"),
             fmt::format("subject.match: not a regular expression: {}", error.what()));
    }
  }

  Subject subject_;
  std::optional<bool> reshard_;
  std::map<std::string, std::string> places_;                // of a key; of a layout its first
  std::vector<std::pair<std::string, std::string>> values_;  // by key, as they came
  const Keys keys_ = {
      {"launch", text(subject_.launch)},
      {"resume", text(subject_.resume)},
      {"float64", text(subject_.float64)},
      {"reversed", text(subject_.reversed)},
      {"accumulate", text(subject_.accumulate)},
      {"checkpoint",
       choice(subject_.checkpoint, {"dcp", "safetensors", "torch", "shardproof", "none"})},
      {"reshard", flag(reshard_)},
      {"deadline", seconds(subject_.deadline)},
      {"at_once", integer(subject_.at_once, 1, 64)},
      {"steps", integer(subject_.steps, 3, 100000)},
      {"save", integer(subject_.save, 1, 100000)},
      {"match", text(subject_.match)},
      {"kill", text(subject_.kill)},
      {"scalars", choice(subject_.scalars, {"trace", "torchtitan", "megatron", "tensorboard"})}};
};

}  // namespace

bool is_subject_check(std::string_view name) {
  return std::find(std::begin(subject_checks), std::end(subject_checks), name) !=
         std::end(subject_checks);
}

bool SubjectLayout::asks(std::string_view check) const {
  return !checks || std::find(checks->begin(), checks->end(), check) != checks->end();
}

bool Subject::has_placeholder(std::string_view name) const {
  const std::vector<std::string> found = placeholders(launch);
  return std::find(found.begin(), found.end(), name) != found.end();
}

const SubjectLayout& Subject::layout(std::string_view name) const {
  const auto found = std::find_if(layouts.begin(), layouts.end(),
                                  [&](const SubjectLayout& each) { return each.name == name; });
  SP_CHECK(found != layouts.end(), "no such layout");
  return *found;
}

Subject parse_subject(std::string_view text, const std::string& file,
                      const std::vector<std::string>& set) {
  Reader reader(file);
  for (const SubjectEntry& entry : read_entries(text, file)) reader.take_entry(entry);
  for (const std::string& each : set) reader.take_entry(read_assignment(each));
  Subject subject = reader.finish();
  subject.digest = sha256(text).hex();
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  subject.folder = folder.lexically_normal().string();
  return subject;
}

Subject load_subject(const std::string& path, const std::vector<std::string>& set) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    refuse(path, "is not a regular file; expected a subject file");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad()) refuse(path, "cannot be read; expected a subject file");
  return parse_subject(text.str(), path, set);
}

}  // namespace shardproof
