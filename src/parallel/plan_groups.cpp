// plan_groups: the splits.
#include "parallel/plan_groups.h"

namespace shardproof {

PlanGroups::PlanGroups(Mesh& mesh, bool gather)
    : layout_(mesh.layout()),
      at_(mesh.at()),
      shard_size_(layout_.shard_size()),
      tensor_(mesh.axis(Axis::tensor)),
      context_(mesh.axis(Axis::context)),
      data_(mesh.axis(Axis::data)),
      pipeline_(mesh.axis(Axis::pipeline)) {
  Communicator& world = mesh.world();
  const auto split = [](Communicator& from, int color, int key, const char* label) {
    return from.split(color, key, label, default_deadline(from));
  };
  const int model = at_.pp * layout_.tp + at_.tp;  // the ranks of one color hold the same pieces
  const int owners = model * replicas() + replica();
  const int owner = at_.cp * shard_size_ + shard_rank();
  state_ = split(world, owners, owner, "state");
  if (gather) gather_ = split(world, owners, owner, "gather");
  all_ = split(world, 0, world.rank(), "all");
  if (layout_.pp > 1) stage_ = split(world, at_.pp, world.rank(), "stage");
  if (layout_.sequence_parallel) {
    sequence_ =
        split(world, at_.pp * layout_.dp + at_.dp, at_.cp * layout_.tp + at_.tp, "sequence");
  }
  if (replicas() > 1) {
    shard_ = split(data_, replica(), shard_rank(), "shard");
    replica_ = split(data_, shard_rank(), replica(), "replica");
  }
}

std::uint64_t PlanGroups::bytes_sent() const {
  std::uint64_t bytes = 0;
  for (const Communicator* each : {&tensor_, &context_, &data_, &pipeline_}) {
    bytes += each->traffic().bytes_sent;
  }
  for (const auto* each : {&shard_, &replica_, &sequence_, &state_, &gather_, &stage_, &all_}) {
    if (*each) bytes += (*each)->traffic().bytes_sent;
  }
  return bytes;
}

std::uint64_t PlanGroups::bytes_sent_in_passes() const {
  std::uint64_t bytes = 0;
  for (const Communicator* each : {&tensor_, &context_, &pipeline_}) {
    bytes += each->traffic().bytes_sent;
  }
  for (const auto* each : {&sequence_, &gather_}) {
    if (*each) bytes += (*each)->traffic().bytes_sent;
  }
  return bytes;
}

}  // namespace shardproof
