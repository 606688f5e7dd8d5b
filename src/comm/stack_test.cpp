// ctest: comm
// The order of the decorators, seen by the order in which they hear of a call, in children as well.
#include "comm/stack.h"

#include <gtest/gtest.h>

#include "comm/conformance_threads.h"
#include "comm/thread_communicator.h"

namespace shardproof {
namespace {

using Heard = std::vector<std::string>;

class Listener : public ForwardingCommunicator {
 public:
  Listener(std::unique_ptr<Communicator> inner, std::string name, Heard& heard,
           const FlightRecorder& recorder)
      : ForwardingCommunicator(std::move(inner)),
        name_(std::move(name)),
        heard_(heard),
        recorder_(recorder) {}
  void run(const Call& call, Deadline deadline) override {
    heard_.push_back(name_ + " of " + group().name + " after " +
                     std::to_string(recorder_.last().size()) + " records");
    ForwardingCommunicator::run(call, deadline);
  }

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override {
    return std::make_unique<Listener>(std::move(child), name_, heard_, recorder_);
  }

 private:
  const std::string name_;
  Heard& heard_;
  const FlightRecorder& recorder_;
};

TEST(Stack, FaultsOfCallsAreOutermostAndThoseOfTheWireInnermost) {
  ThreadWorld world(1);
  Heard heard;
  const auto recorder = std::make_shared<FlightRecorder>(0);
  const auto listener = [&](const char* name) {
    return [&, name](std::unique_ptr<Communicator> inner) {
      return std::make_unique<Listener>(std::move(inner), name, heard, *recorder);
    };
  };
  const auto comm =
      wrap(world.communicator(0),
           {.recorder = recorder, .outer = listener("outer"), .wire = listener("wire")});
  barrier(*comm);
  const auto child = comm->split(0, 0, "dp", default_deadline(*comm));
  barrier(*child);
  EXPECT_EQ(heard,
            (Heard{"outer of world after 0 records", "wire of world after 1 records",
                   "outer of world/dp.0 after 1 records", "wire of world/dp.0 after 2 records"}));
}

TEST(Stack, WhatGuardsAgreeOnDoesNotPassTheWire) {
  ThreadWorld world(2);
  conformance::own_on_threads(world, [](std::unique_ptr<Communicator> backend) {
    Heard heard;
    const FlightRecorder none(0);
    StackOptions options;
    options.wire = [&](std::unique_ptr<Communicator> inner) {
      return std::make_unique<Listener>(std::move(inner), "wire", heard, none);
    };
    options.verify.emplace();
    const auto comm = wrap(std::move(backend), options);
    barrier(*comm);
    barrier(*comm->split(0, comm->rank(), "dp", default_deadline(*comm)));
    EXPECT_EQ(heard,
              (Heard{"wire of world after 0 records", "wire of world/dp.0 after 0 records"}));
  });
}

}  // namespace
}  // namespace shardproof
