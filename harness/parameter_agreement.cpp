// parameter_agreement: digests of parameters, compared along the axes that share them.
#include "harness/parameter_agreement.h"

#include "base/digest.h"
#include "parallel/agreement.h"

namespace shardproof {
namespace {

// Of the parameters that this rank holds, or of those alone that are not cut into pieces.
std::string parameters_digest(Plan& plan, bool whole_only) {
  Sha256 hash;
  for (const StateShard& shard : plan.shards("param", true)) {
    const PieceSpec& piece = plan.table().pieces()[static_cast<std::size_t>(shard.piece_index)];
    if (whole_only && piece.pieces > 1) continue;
    hash.update(shard.data, static_cast<std::size_t>(shard.range.size()) * sizeof(float));
  }
  return hash.finish().hex();
}

}  // namespace

bool agree_on_parameters(Mesh& mesh, Plan& plan, bool tied) {
  const Layout& layout = mesh.layout();
  Communicator& data = mesh.axis(Axis::data);
  const std::vector<Fact> all{{"parameters", parameters_digest(plan, false)}};
  if (layout.zero == 3) {
    const int group = layout.shard_size();
    const int dp = mesh.at().dp;
    agree_on(*data.split(dp % group, dp / group, "copies", default_deadline(data)), all);
    return false;
  }
  agree_on(data, all);
  agree_on(mesh.axis(Axis::context), all);
  agree_on(mesh.axis(Axis::tensor),
           {{"parameters that are not cut", parameters_digest(plan, true)}});
  return !tied || layout.pp == 1;
}

}  // namespace shardproof
