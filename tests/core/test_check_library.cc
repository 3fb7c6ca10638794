// SPDX-License-Identifier: Apache-2.0
// Library descriptors built by hand, each with one fault.
#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "core/check.h"
#include "descriptors.h"
#include "thrown.h"

namespace opabi {
namespace {

/// A library of the kernels blur and sharpen.
struct TwoKernels {
  opabi_kernel blur = GoodKernel(), sharpen = GoodKernel();
  const opabi_kernel *kernels[2] = {&blur, &sharpen};
  opabi_library library = GoodLibrary(kernels, 2);

  TwoKernels() { sharpen.name = "sharpen"; }
  TwoKernels(const TwoKernels &) = delete;

  void CheckRefused(const std::string &rule, std::initializer_list<const char *> parts) const {
    auto thrown = ThrownBy([&] { CheckLibrary(&library, "libx.so"); });
    CHECK(thrown.rule == rule);
    CHECK(thrown.kind == Kind::kValue);
    CHECK_SAYS(thrown, "(libx.so)");
    for (const char *part : parts) CHECK_SAYS(thrown, part);
    std::vector<Broken> broken = AllBroken(&library, "libx.so");
    REQUIRE(broken.size() == 1);
    CHECK(broken[0].rule == rule);
  }
  void CheckTaken() const {
    CHECK_NOTHROW(CheckLibrary(&library, "libx.so"));
    CHECK(AllBroken(&library, "libx.so").empty());
  }
};

TEST_CASE("test_library_good_taken") { TwoKernels().CheckTaken(); }

TEST_CASE("test_library_without_kernels_taken") {
  TwoKernels two;
  two.library.n_kernels = 0;
  two.library.kernels = nullptr;
  two.CheckTaken();
}

TEST_CASE("test_library_handshake_faults_refused") {
  TwoKernels two;
  two.library.abi_min = OPABI_VERSION(3, 1);
  two.library.name = reinterpret_cast<const char *>(8);
  two.CheckRefused("OPABI-D-004", {"the library", "ABI 3.1", "1.0"});
  two.library.struct_size = 48;
  two.CheckRefused("OPABI-D-003", {"struct_size is 48", "56", "sizeof(opabi_library)"});
  two.library.magic++;
  two.CheckRefused("OPABI-D-002", {"the library"});
}

TEST_CASE("test_library_newer_minor_refused") {
  TwoKernels two;
  two.library.abi_min = OPABI_VERSION(1, 1);
  two.CheckRefused("OPABI-D-004", {"library 'mylib'", "ABI 1.1", "1.0"});
}

TEST_CASE("test_library_first_minor_nothing_beyond_read") {
  TwoKernels two;
  MemoryEnd memory(&two.library, OPABI_LIBRARY_SIZE_1_0);
  CHECK_NOTHROW(CheckLibrary(memory.As<opabi_library>(), "libx.so"));
}

TEST_CASE("test_library_name_wrong_refused") {
  TwoKernels two;
  two.library.name = "my-lib";
  two.CheckRefused("OPABI-D-006", {"the library (libx.so)", "'my-lib'"});
}

TEST_CASE("test_library_texts_not_utf8_refused") {
  TwoKernels two;
  two.library.version = "1.\xFF";
  two.CheckRefused("OPABI-D-014", {"its version"});
  two.library.version = nullptr;
  two.library.doc = "\xFE";
  two.CheckRefused("OPABI-D-014", {"its doc"});
}

TEST_CASE("test_library_count_out_of_range_refused") {  // OPABI-D-013
  TwoKernels two;
  for (int64_t n : {INT64_C(-1), INT64_C(65537), INT64_MAX}) {
    two.library.n_kernels = n;
    two.CheckRefused("OPABI-D-013", {std::to_string(n).c_str(), "65536"});
  }
}

TEST_CASE("test_library_most_kernels_taken") {
  std::vector<std::string> names;
  for (int i = 0; i < 65536; i++) names.push_back("k" + std::to_string(i));
  std::vector<opabi_kernel> kernels(names.size(), GoodKernel());
  std::vector<const opabi_kernel *> table;
  for (size_t i = 0; i < names.size(); i++) {
    kernels[i].name = names[i].c_str();
    table.push_back(&kernels[i]);
  }
  opabi_library library = GoodLibrary(table.data(), static_cast<int64_t>(table.size()));
  CHECK_NOTHROW(CheckLibrary(&library, "libx.so"));
}

TEST_CASE("test_library_table_not_read_beyond_its_count") {
  TwoKernels two;
  MemoryEnd memory(two.kernels, sizeof two.kernels);
  two.library.kernels = memory.As<const opabi_kernel *>();
  two.CheckTaken();
}

TEST_CASE("test_library_table_null_or_misaligned_refused") {
  TwoKernels two;
  two.library.kernels = nullptr;
  two.CheckRefused("OPABI-D-013", {"n_kernels is 2", "NULL"});
  two.library.kernels =
      reinterpret_cast<const opabi_kernel *const *>(reinterpret_cast<char *>(two.kernels) + 4);
  two.CheckRefused("OPABI-D-013", {"multiple of 8"});
}

TEST_CASE("test_library_kernel_null_refused") {
  TwoKernels two;
  two.kernels[1] = nullptr;
  two.CheckRefused("OPABI-D-013", {"kernels[1] is NULL"});
}

TEST_CASE("test_library_kernel_name_twice_refused") {  // OPABI-D-006
  TwoKernels two;
  two.sharpen.name = "blur";
  two.CheckRefused("OPABI-D-006", {"kernels 0 and 1", "'blur'"});
}

TEST_CASE("test_library_kernel_fault_names_both") {
  TwoKernels two;
  two.sharpen.run = nullptr;
  two.CheckRefused("OPABI-D-007", {"kernel 'sharpen' of library 'mylib' (libx.so)"});
  two.sharpen.magic = 0;
  two.CheckRefused("OPABI-D-002", {"kernel 1 of library 'mylib' (libx.so)"});
}

TEST_CASE("test_library_kernels_without_readable_names_no_repeat") {
  TwoKernels two;
  two.blur.magic = two.sharpen.magic = 0;
  std::vector<Broken> broken = AllBroken(&two.library, "libx.so");
  REQUIRE(broken.size() == 2);
  CHECK(broken[1].rule == "OPABI-D-002");
}

TEST_CASE("test_library_all_broken_lists_faults_of_each_kernel") {
  TwoKernels two;
  two.library.version = "\xFF";
  two.blur.magic = 0;
  two.sharpen.device_type = 7;
  std::vector<std::string> rules;
  for (const Broken &broken : AllBroken(&two.library, "libx.so")) rules.push_back(broken.rule);
  CHECK(rules == std::vector<std::string>{"OPABI-D-014", "OPABI-D-002", "OPABI-D-011"});
}

}  // namespace
}  // namespace opabi
