// stage_link: messages and their books.
#include "parallel/stage_link.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace shardproof {

StageLink::StageLink(Communicator& pipeline, int chunks, int sequence_pieces)
    : pipeline_(pipeline), stages_(pipeline.size() * chunks), tags_(stages_, sequence_pieces) {
  SP_CHECK(StageTags::fit(stages_, sequence_pieces), fmt::format("{} stages", stages_));
}

StageLink::~StageLink() {
  if (!under_way_.empty()) pipeline_.abort();
}

StageLink::Way StageLink::way(bool sends, int chunk, const Site& site) const {
  SP_CHECK(site.pass != Pass::recompute, site.what);
  const bool back = site.pass == Pass::backward;
  const int here = chunk * pipeline_.size() + pipeline_.rank();
  const int there = sends == back ? here - 1 : here + 1;
  SP_CHECK(0 <= there && there < stages_, fmt::format("no stage {} of {}", there, stages_));
  return {there % pipeline_.size(),
          tags_.of(back, std::min(here, there), site.micro_batch, site.sequence)};
}

void StageLink::send(at::Tensor tensor, int chunk, const Site& site) {
  SP_CHECK(tensor.is_contiguous() && tensor.scalar_type() == at::kFloat,
           "only contiguous fp32 travels");
  reap();
  const Way to = way(true, chunk, site);
  const auto keep = std::make_shared<const at::Tensor>(std::move(tensor));
  Call call;
  call.kind = CallKind::send;
  call.dtype = Dtype::f32;
  call.send = keep->const_data_ptr();
  call.count = static_cast<std::size_t>(keep->numel());
  call.peer = to.peer;
  call.tag = to.tag;
  under_way_.push_back(pipeline_.start(call, keep));
}

at::Tensor StageLink::receive(at::IntArrayRef shape, int chunk, const Site& site) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  const Way from = way(false, chunk, site);
  const Duration before = Clock::real().now();
  recv(pipeline_, tensor.mutable_data_ptr(), static_cast<std::size_t>(tensor.numel()), Dtype::f32,
       from.peer, from.tag);
  waited_ += Clock::real().now() - before;
  return tensor;
}

void StageLink::reap() {
  std::erase_if(under_way_, [&](const std::unique_ptr<Work>& work) {
    if (!work->done()) return false;
    work->wait(default_deadline(pipeline_));  // throws what went wrong
    return true;
  });
}

void StageLink::finish() {
  const Deadline deadline = default_deadline(pipeline_);
  for (const auto& work : under_way_) work->wait(deadline);
  under_way_.clear();
}

}  // namespace shardproof
