// config_testing: for tests: any config whose keys are in range; check() may refuse it.
#pragma once

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "train/config_sources.h"

namespace shardproof {

// Texts that a printer could get wrong, besides plain ones.
inline std::string any_text() {
  return *rc::gen::oneOf(rc::gen::element<std::string>("", " ", "a b", "\"", "\"a", "a\"b c", "'",
                                                       "\\", "a\\\"b", "[", "#", "=", "a=b", "\n\t",
                                                       "\x01\x7f", "true", "1", "é 😀", "$(x)", "*"),
                         rc::gen::container<std::string>(rc::gen::inRange<char>(32, 127)));
}

inline Config any_config() {
  struct Draw {
    const Range& range;
    void operator()(int* value) const {
      const double hi = std::min(range.hi, 2147483646.0);
      *value = *rc::gen::inRange(static_cast<int>(range.lo), static_cast<int>(hi) + 1);
    }
    void operator()(double* value) const {
      const double hi = std::min(range.hi, range.lo + 10);
      const double part = *rc::gen::inRange(1, 1 << 30) / static_cast<double>(1 << 30);
      *value = range.lo + part * (hi - range.lo);
    }
    void operator()(bool* value) const { *value = *rc::gen::arbitrary<bool>(); }
    void operator()(std::string* value) const {
      if (range.choices.empty()) {
        *value = any_text();
      } else {
        *value = *rc::gen::elementOf(range.choices);
      }
    }
    void operator()(std::vector<int>* value) const {
      value->resize(*rc::gen::inRange<std::size_t>(0, 4));
      for (int& item : *value) (*this)(&item);
    }
    void operator()(std::vector<std::string>* value) const {
      value->clear();
      const int count = *rc::gen::inRange(0, 4);
      for (int i = 0; i < count; ++i) value->push_back(any_text());
    }
    void operator()(std::vector<SourceSection>* value) const {
      value->assign(*rc::gen::inRange<std::size_t>(0, 4), {});
      for (std::size_t i = 0; i < value->size(); ++i) {
        for (const Field& field : source_fields((*value)[i], i)) {
          if (*rc::gen::arbitrary<bool>()) std::visit(Draw{field.range}, field.member);
        }
      }
    }
  };
  Config config;
  for (const Field& field : fields(config)) {
    if (*rc::gen::inRange(0, 3) > 0) std::visit(Draw{field.range}, field.member);
  }
  return config;
}

}  // namespace shardproof
