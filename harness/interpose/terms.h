// terms: what MPI asks the ranks of each collective to have in common. Arguments that are
// significant at the root alone are read there alone. Thread rule: any thread.
#pragma once

#include <mpi.h>

#include "harness/interpose/agreement.h"

namespace shardproof::interpose {

// A buffer's count and type.
struct Extent {
  int count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  bool in_place = false;
  Signature signature() const { return signature_of(type, count); }
};
struct Extents {
  const int* counts = nullptr;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  const MPI_Datatype* types = nullptr;  // one a rank, in place of `type`
  Signature at(int rank) const {
    return signature_of(types == nullptr ? type : types[rank], counts[rank]);
  }
};

Terms broadcast_terms(Extent data, int root);
Terms reduce_terms(const char* name, Extent data, MPI_Op op);
Terms rooted_reduce_terms(Extent data, MPI_Op op, int root);
Terms reduce_scatter_terms(const Group& group, Extents parts, MPI_Op op);
Terms gather_terms(const Group& group, Extent send, Extent recv, int root);
Terms gatherv_terms(const Group& group, Extent send, Extents recv, int root);
Terms scatter_terms(const Group& group, Extent send, Extent recv, int root);
Terms scatterv_terms(const Group& group, Extents send, Extent recv, int root);
Terms symmetric_terms(const char* name, Extent send, Extent recv);  // all_gather, all_to_all
Terms allgatherv_terms(const Group& group, Extent send, Extents recv);
Terms alltoallv_terms(const Group& group, Extents send, Extents recv, bool in_place);

}  // namespace shardproof::interpose
