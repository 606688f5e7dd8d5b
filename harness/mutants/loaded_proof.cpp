// loaded_proof: goes into every mutant's shared object. When the object is loaded, each process
// appends one line to the file named by SHARDPROOF_MUTANT_PROOF: the program, this object, and the
// object from which calls of SHARDPROOF_MUTANT_SYMBOL are served. Without the variable: nothing.
#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>

namespace {

__attribute__((constructor)) void prove_loaded() {
  const char* path = std::getenv("SHARDPROOF_MUTANT_PROOF");
  if (path == nullptr) return;
  char program[PATH_MAX] = {};
  if (::readlink("/proc/self/exe", program, sizeof program - 1) < 0) return;
  Dl_info self{}, serves{};
  void* symbol = ::dlsym(RTLD_DEFAULT, SHARDPROOF_MUTANT_SYMBOL);
  ::dladdr(reinterpret_cast<void*>(&prove_loaded), &self);
  if (symbol != nullptr) ::dladdr(symbol, &serves);
  std::FILE* file = std::fopen(path, "a");
  if (file == nullptr) return;
  std::fprintf(file, "%s\t%s\t%s\n", program, self.dli_fname ? self.dli_fname : "?",
               serves.dli_fname ? serves.dli_fname : "none");
  std::fclose(file);
}

}  // namespace
