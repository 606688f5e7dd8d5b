// settings: what the environment asks of the preload:
//   SHARDPROOF_MPI_VERIFY=0      ranks do not agree on collectives (default 1)
//   SHARDPROOF_MPI_MESSAGES=0    messages carry no envelope (default 1)
//   SHARDPROOF_MPI_LOOK=S        a wait of S seconds is looked into (default 1)
//   SHARDPROOF_MPI_DEADLINE=S    a rank that shows no sign of progress for S seconds while others
//                                wait for it hangs (default 1800; 0: never)
//   SHARDPROOF_MPI_DUMPS=FOLDER  flight dumps of all ranks go there (default: none)
//   SHARDPROOF_MPI_BOARD=FOLDER  where ranks of a machine find each other (default /dev/shm)
#pragma once

#include <string>

namespace shardproof::interpose {

struct Settings {
  bool verify = true;
  bool messages = true;
  double look = 1;
  double deadline = 1800;
  std::string dumps;
  std::string board = "/dev/shm";
};

// Error bad_input naming the variable.
Settings read_settings();

}  // namespace shardproof::interpose
