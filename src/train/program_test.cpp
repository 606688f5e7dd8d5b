// ctest: unit
#include "train/program.h"

#include <ATen/Version.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cctype>

#include "base/digest.h"
#include "base/error.h"

namespace shardproof {
namespace {

TEST(Program, SaysWhatRuns) {
  use_numerics(false);
  const Program& first = program();
  EXPECT_EQ(Digest::from_hex(first.code).hex(), first.code);
  EXPECT_EQ(&program(), &first) << "computed once";
  EXPECT_EQ(first.versions.at("libtorch").get<std::string>().substr(0, 2), "2.");
  EXPECT_FALSE(first.versions.at("mpi").get<std::string>().empty());
  EXPECT_NE(first.kernels.find("aten " + at::get_cpu_capability()), std::string::npos);
  EXPECT_EQ(first.kernels.find('\n'), std::string::npos);
}

TEST(Program, NumericsAreSetOnceAProcess) {
  use_numerics(false);
  use_numerics(false);
  try {
    use_numerics(true);
    FAIL() << "portable after fast";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::refused);
    EXPECT_EQ(error.place(), "numerics.portable");
    EXPECT_NE(error.detail().find("fast kernels have run"), std::string::npos);
  }
}

// In processes of their own: the first tensor operation chooses kernels for good.
TEST(ProgramDeathTest, PortableKernelsAreInForceOrRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        use_numerics(true);
        const at::Tensor a = at::ones({64, 64}, at::kFloat);
        at::mm(a, a);
        std::fprintf(stderr, "%s\n", program().kernels.c_str());
        std::exit(0);
      },
      testing::ExitedWithCode(0), "aten DEFAULT \\| mkl branch 3 \\| onednn off");
}

TEST(Program, PeakFlopsIsARate) {
  const double rate = measure_peak_flops();
  EXPECT_GT(rate, 1e8);
  EXPECT_LT(rate, 1e13);
}

}  // namespace
}  // namespace shardproof
