// ctest: comm timeout=400
// The conformance bodies on threads, plain and inside the whole stack of decorators.
#include <gtest/gtest.h>

#include "comm/conformance.h"
#include "comm/conformance_threads.h"
#include "comm/stack.h"

namespace shardproof::conformance {
namespace {

class OnThreads : public testing::TestWithParam<std::tuple<Body, int>> {};

TEST_P(OnThreads, Conforms) {
  const auto& [body, ranks] = GetParam();
  on_threads(ranks, [&body = body](Communicator& comm) { body.run(comm, Backend{}); });
}

std::string test_name(const testing::TestParamInfo<std::tuple<Body, int>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Worlds, OnThreads,
                         testing::Combine(testing::ValuesIn(bodies()),
                                          testing::Values(1, 2, 3, 4, 6)),
                         test_name);

// What is agreed on by messages; the whole stack below agrees over shared memory. Bodies that only
// compute many values are left to it.
class ByMessages : public testing::TestWithParam<Body> {};

TEST_P(ByMessages, Conforms) {
  ThreadWorld world(3, std::chrono::seconds(20));
  own_on_threads(world, [&](std::unique_ptr<Communicator> comm) {
    StackOptions options;
    options.verify.emplace().way = AgreementWay::messages;
    const auto verified = wrap(std::move(comm), options);
    GetParam().run(*verified, Backend{});
  });
}

std::vector<Body> bodies_of_semantics() {
  std::vector<Body> some = bodies();
  std::erase_if(some, [](const Body& body) {
    const std::string_view name = body.name;
    return name.ends_with("_calls") || name.starts_with("canonical");
  });
  return some;
}

INSTANTIATE_TEST_SUITE_P(Bodies, ByMessages, testing::ValuesIn(bodies_of_semantics()),
                         [](const auto& info) { return std::string(info.param.name); });

class Decorated : public testing::TestWithParam<Body> {};

TEST_P(Decorated, Conforms) {
  ThreadWorld world(3, std::chrono::seconds(20));
  own_on_threads(world, [&](std::unique_ptr<Communicator> comm) {
    StackOptions options;
    options.recorder = std::make_shared<FlightRecorder>(comm->rank());
    options.delay = CommunicationDelay{std::chrono::microseconds(1), 1e12};
    options.verify.emplace();
    const auto decorated = wrap(std::move(comm), options);
    GetParam().run(*decorated, Backend{});
    barrier(*decorated);
    EXPECT_FALSE(options.recorder->last().empty());
  });
}

INSTANTIATE_TEST_SUITE_P(Bodies, Decorated, testing::ValuesIn(bodies()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace shardproof::conformance
