// terms: one function a kind of collective.
#include "harness/interpose/terms.h"

#include <utility>

namespace shardproof::interpose {

Terms broadcast_terms(Extent data, int root) {
  return std::move(Terms("broadcast").from_root(root).data(data.signature()));
}

Terms reduce_terms(const char* name, Extent data, MPI_Op op) {
  return std::move(Terms(name).data(data.signature()).op(op));
}

Terms rooted_reduce_terms(Extent data, MPI_Op op, int root) {
  return std::move(Terms("reduce").from_root(root).data(data.signature()).op(op));
}

Terms reduce_scatter_terms(const Group& group, Extents parts, MPI_Op op) {
  Terms terms("reduce_scatter");
  for (int rank = 0; rank < group.size; ++rank) terms.part(rank, parts.at(rank));
  return std::move(terms.op(op));
}

Terms gather_terms(const Group& group, Extent send, Extent recv, int root) {
  const Extent& mine = group.rank == root ? recv : send;
  return std::move(Terms("gather").from_root(root).data(mine.signature()));
}

Terms gatherv_terms(const Group& group, Extent send, Extents recv, int root) {
  Terms terms("gather");
  terms.from_root(root).pairs(group.size);
  if (group.rank != root) return std::move(terms.sends(group.rank, root, send.signature()));
  for (int from = 0; from < group.size; ++from) terms.receives(group.rank, from, recv.at(from));
  return terms;
}

Terms scatter_terms(const Group& group, Extent send, Extent recv, int root) {
  const Extent& mine = group.rank == root ? send : recv;
  return std::move(Terms("scatter").from_root(root).data(mine.signature()));
}

Terms scatterv_terms(const Group& group, Extents send, Extent recv, int root) {
  Terms terms("scatter");
  terms.from_root(root).pairs(group.size);
  if (group.rank != root) return std::move(terms.receives(group.rank, root, recv.signature()));
  for (int to = 0; to < group.size; ++to) terms.sends(group.rank, to, send.at(to));
  return terms;
}

// What a rank sends to each must be what it gets from each; where it is not, the others see it.
Terms symmetric_terms(const char* name, Extent send, Extent recv) {
  return std::move(Terms(name).data(send.in_place ? recv.signature() : send.signature()));
}

Terms allgatherv_terms(const Group& group, Extent send, Extents recv) {
  Terms terms("all_gather");
  for (int rank = 0; rank < group.size; ++rank) {
    const bool own = rank == group.rank && !send.in_place;
    terms.part(rank, own ? send.signature() : recv.at(rank));
  }
  return terms;
}

Terms alltoallv_terms(const Group& group, Extents send, Extents recv, bool in_place) {
  Terms terms("all_to_all");
  terms.pairs(group.size);
  for (int rank = 0; rank < group.size; ++rank) {
    terms.sends(group.rank, rank, in_place ? recv.at(rank) : send.at(rank));
    terms.receives(group.rank, rank, recv.at(rank));
  }
  return terms;
}

}  // namespace shardproof::interpose
