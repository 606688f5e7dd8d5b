// ctest: unit
#include "train/config.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>

#include "base/digest.h"
#include "base/expect_error.h"
#include "train/config_fields.h"

namespace shardproof {
namespace {

using Parts = std::initializer_list<std::string_view>;

void expect_refusal(const std::vector<std::string>& assignments, Parts parts) {
  Config config;
  Origins origins;
  for (const std::string& each : assignments) set_key(config, each, &origins);
  SCOPED_TRACE(run_line(config));
  expect_error(ErrorKind::bad_input, parts, [&] { check(config, origins); });
}

void expect_legal(const std::vector<std::string>& assignments) {
  Config config;
  for (const std::string& each : assignments) set_key(config, each);
  EXPECT_NO_THROW(check(config)) << run_line(config);
}

TEST(Config, TheDefaultIsLegal) {
  EXPECT_NO_THROW(check(Config{}));
  EXPECT_EQ(Config{}.micro_batches(), 4);
}

TEST(Config, LegalVariations) {
  expect_legal({"data.kind=text", "data.path=x.txt", "model.vocabulary=256"});
  expect_legal({"data.kind=tokens", "data.path=x.bin", "data.packed=true", "data.end_token=63"});
  expect_legal({"training.accumulation=1"});
  expect_legal({"run.layout=dp2", "training.accumulation=2"});
  expect_legal({"run.layout=dp3.zero1"});
  expect_legal({"optimizer.lr=0", "training.clip=0"});
  expect_legal({"run.fault=3:19:backward:kill"});
  expect_legal({"checkpoint.directory=d", "checkpoint.every=5"});
  expect_legal({"optimizer.warmup=5", "optimizer.decay_steps=6"});
}

TEST(Config, BatchTripleNamesNumbersAndLegalValues) {
  expect_refusal({"training.global_batch=15"},
                 {"--set training.global_batch=15", "training.global_batch:", "micro_batch 4",
                  "a multiple of 4, such as 16", "a micro_batch of 1, 3, 5, 15"});
  expect_refusal({"training.micro_batch=3"}, {"--set training.micro_batch=3", "global_batch 16"});
  expect_refusal({"training.accumulation=2"},
                 {"--set training.accumulation=2", "training.accumulation:",
                  "global_batch 16 and micro_batch 4 x accumulation 2 x dp 4 = 32",
                  "expected accumulation 1 or global_batch 32"});
  expect_refusal({"run.layout=dp3", "training.accumulation=1"},
                 {"micro_batch 4 x accumulation 1 x dp 3 = 12",
                  "expected accumulation 0 (uneven shares of 4 micro-batches) or global_batch 12"});
}

TEST(Config, DataMustFit) {
  expect_refusal({"data.kind=text", "data.path=x.txt"},
                 {"model.vocabulary", "found 64", "text needs at least 256"});
  expect_refusal({"data.kind=text", "model.vocabulary=256"},
                 {"--set data.kind=text", "data.path: not given"});
  expect_refusal({"data.path=x.txt"}, {"data.path", "\"x.txt\"", "data.kind synthetic"});
  expect_refusal({"data.packed=true"}, {"data.packed", "data.kind text or tokens"});
  expect_refusal({"data.kind=tokens", "data.path=x", "data.packed=true", "data.end_token=64"},
                 {"data.end_token", "found 64", "below model.vocabulary 64"});
}

TEST(Config, ModelAndLayoutMustFit) {
  expect_refusal({"model.heads=3"}, {"--set model.heads=3", "model:"});
  expect_refusal({"numerics.sequence_pieces=3"}, {"--set numerics.sequence_pieces=3"});
  expect_refusal({"run.layout=dp2.ep2"},
                 {"--set run.layout=dp2.ep2", "run.layout:", "expert parallelism (ep)",
                  "not supported yet", "dpN, tpN"});
  expect_refusal({"parallel.stage_layers=[1,1]"},
                 {"--set parallel.stage_layers=[1,1]",
                  "expected one of at least 1 for each of 1 stage", "such as [2]"});
  expect_refusal({"run.layout=tp3"}, {"--set run.layout=tp3", "expected tp 1 to 2"});
  expect_refusal({"run.layout=dp3.zero2"}, {"dp 3 must divide the 4 micro-batches of a step"});
  expect_refusal({"run.layout=dq4"}, {"--set run.layout=dq4", "part \"dq4\"", "expected"});
}

TEST(Config, ScheduleCheckpointsAndFaults) {
  expect_refusal({"optimizer.warmup=5", "optimizer.decay_steps=5"},
                 {"optimizer.decay_steps", "found 5 with warmup 5"});
  expect_refusal({"checkpoint.every=5"}, {"checkpoint.every", "without checkpoint.directory"});
  expect_refusal({"run.fault=2:3:nowhere:kill"}, {"--set run.fault", "run.fault:"});
  expect_refusal({"run.fault=4:3:backward:kill"}, {"run.fault", "rank 4", "4 ranks"});
  expect_refusal({"run.fault=0:20:backward:kill"}, {"run.fault", "step 20", "20 steps"});
}

// check() looks at ranges too: a Config can be filled by code.
TEST(Config, ValuesSetByCodeAreChecked) {
  const auto refuses = [](const std::function<void(Config&)>& change, Parts parts) {
    Config config;
    change(config);
    expect_error(ErrorKind::bad_input, parts, [&] { check(config); });
  };
  refuses([](Config& c) { c.training.micro_batch = 0; },
          {"config", "training.micro_batch: found 0; expected an integer >= 1"});
  refuses([](Config& c) { c.optimizer.beta2 = 1; },
          {"optimizer.beta2: found 1.0; expected a number >= 0 and < 1"});
  refuses([](Config& c) { c.optimizer.lr = std::numeric_limits<double>::infinity(); },
          {"optimizer.lr: found"});
  refuses([](Config& c) { c.run.backend = "gloo"; },
          {"run.backend: found \"gloo\"; expected one of threads, mpi"});
}

TEST(Config, OffloadIsRefusedWhereThereIsNothingToOffload) {
  const auto refuses = [](std::initializer_list<const char*> set, Parts parts) {
    Config config;
    Origins origins;
    for (const char* assignment : set) set_key(config, assignment, &origins);
    expect_error(ErrorKind::bad_input, parts, [&] { check(config, origins); });
  };
  refuses({"run.layout=dp2.tp2.zero2", "parallel.offload_parameters=host"},
          {"--set parallel.offload_parameters=host", "found host with layout dp2.tp2.zero2",
           "only ZeRO 3 shards parameters", "expected none, or a layout such as dp2.tp2.zero3"});
  refuses({"parallel.offload_optimizer=host", "parallel.offload_directory=/tmp"},
          {"parallel.offload_directory", "nothing is offloaded to a file",
           "expected parallel.offload_optimizer=file"});
  Config config;
  for (const char* assignment :
       {"run.layout=dp4.zero3", "parallel.offload_parameters=file", "parallel.offload_directory=/x",
        "parallel.offload_optimizer=host", "parallel.offload_window=12288"}) {
    set_key(config, assignment);
  }
  check(config);
  EXPECT_EQ(case_line(config), "");
  EXPECT_EQ(run_line(config),
            "parallel.offload_optimizer=host parallel.offload_parameters=file "
            "parallel.offload_directory=/x parallel.offload_window=12288 run.layout=dp4.zero3");
  expect_error(ErrorKind::bad_input, {"parallel.offload_window", "expected an integer >= 12288"},
               [&] { set_key(config, "parallel.offload_window=12287"); });
}

TEST(Config, EveryKeyIsListedOnceAndItsDefaultIsInRange) {
  Config config;
  std::set<std::string> names;
  for (const Field& field : fields(config)) {
    EXPECT_TRUE(names.insert(field.name()).second) << field.name();
    EXPECT_NO_THROW(check_range(field, "default")) << field.name();
    EXPECT_FALSE(field.doc.empty()) << field.name();
  }
}

TEST(Config, TheDigestIsOfWhatDeterminesTheBits) {
  const std::string digest = config_digest(Config{});
  Json one_source = case_json(Config{});
  one_source["data"].erase("sources");
  EXPECT_EQ(digest, sha256(one_source.dump()).hex());
  Config defaults;
  for (const Field& field : fields(defaults)) {
    // Any other legal value of the key.
    Config changed;
    const auto all = fields(changed);
    const Field* other = find_field(all, field.section, field.key);
    struct Change {
      void operator()(int* value) const { *value += 1; }
      void operator()(double* value) const { *value = *value / 2 + 0.01; }
      void operator()(bool* value) const { *value = !*value; }
      void operator()(std::string* value) const { *value += "x"; }
      void operator()(std::vector<int>* value) const { value->push_back(1); }
      void operator()(std::vector<std::string>* value) const { value->push_back("x"); }
      void operator()(std::vector<SourceSection>* value) const { value->emplace_back(); }
    };
    std::visit(Change{}, other->member);
    EXPECT_EQ(config_digest(changed) != digest, field.use == KeyUse::bits) << field.name();
    EXPECT_EQ(case_line(changed) != "", field.use != KeyUse::run) << field.name();
    EXPECT_NE(run_line(changed), "") << field.name();
    EXPECT_NE(changed, Config{}) << field.name();
  }
}

TEST(Config, ElasticRunsNeedBitsThatNoLayoutChanges) {
  Config config;
  config.run.spares = 1;
  expect_error(ErrorKind::bad_input, {"run.spares", "run.elastic"}, [&] { check(config); });
  config.run.elastic = true;
  check(config);
  config.numerics.reduction = "native";
  expect_error(ErrorKind::bad_input, {"run.elastic", "native reduction"}, [&] { check(config); });
  config.numerics.reduction = "canonical";
  config.data.remix = true;
  expect_error(ErrorKind::bad_input, {"run.elastic", "data.remix"}, [&] { check(config); });
}

}  // namespace
}  // namespace shardproof
