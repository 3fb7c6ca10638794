// SPDX-License-Identifier: Apache-2.0
// Declared arguments and their defaults, each with one fault.
#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "core/check.h"
#include "descriptors.h"
#include "thrown.h"

namespace opabi {
namespace {

/// A kernel with the arguments sigma (a float32 with a default), sizes (int64, rank 2, with a
/// default) and anything. Pointers are into the object itself.
struct WithArguments {
  float sigma = 1.5f;
  int64_t sizes[6] = {1, 2, 3, 4, 5, 6}, shape[2] = {2, 3}, strides[2] = {3, 1};
  opabi_tensor scalar{&sigma, OPABI_CPU, 0, 0, OPABI_FLOAT32, nullptr, nullptr, 0};
  opabi_tensor array{sizes, OPABI_CPU, 0, 2, OPABI_INT64, shape, strides, 0};
  opabi_arg args[3] = {{"sigma", "width", OPABI_FLOAT32, 0, &scalar, 0},
                       {"sizes", nullptr, OPABI_INT64, 2, &array, 0},
                       {"anything", nullptr, OPABI_DTYPE_ANY, OPABI_NDIM_ANY, nullptr, 0}};
  opabi_kernel kernel = GoodKernel();

  WithArguments() {
    kernel.n_args = 3;
    kernel.args = args;
  }
  WithArguments(const WithArguments &) = delete;

  void CheckRefused(const std::string &rule, std::initializer_list<const char *> parts) const {
    auto thrown = ThrownBy([&] { CheckKernel(&kernel); });
    CHECK(thrown.rule == rule);
    CHECK_SAYS(thrown, "kernel 'blur'");
    for (const char *part : parts) CHECK_SAYS(thrown, part);
    std::vector<Broken> broken = AllBroken(&kernel);
    REQUIRE(broken.size() == 1);
    CHECK(broken[0].rule == rule);
  }
  void CheckTaken() const { CHECK_NOTHROW(CheckKernel(&kernel)); }
};

TEST_CASE("test_arguments_good_taken") { WithArguments().CheckTaken(); }

// ---- OPABI-D-010: declarations
// ---------------------------------------------------------------------

TEST_CASE("test_arguments_count_out_of_range_refused") {
  WithArguments with;
  for (int32_t n : {-1, 65, INT32_MAX, INT32_MIN}) {
    with.kernel.n_args = n;
    with.CheckRefused("OPABI-D-010", {std::to_string(n).c_str(), "0 to 64"});
  }
}

TEST_CASE("test_arguments_most_taken") {
  WithArguments with;
  std::vector<std::string> names;
  for (int i = 0; i < 64; i++) names.push_back("a" + std::to_string(i));
  std::vector<opabi_arg> args;
  for (const std::string &name : names)
    args.push_back({name.c_str(), nullptr, OPABI_BOOL, 15, nullptr, 0});
  with.kernel.args = args.data();
  with.kernel.n_args = 64;
  with.CheckTaken();
}

TEST_CASE("test_arguments_table_null_or_misaligned_refused") {
  WithArguments with;
  with.kernel.args = nullptr;
  with.CheckRefused("OPABI-D-010", {"n_args is 3", "NULL"});
  with.kernel.args = reinterpret_cast<const opabi_arg *>(reinterpret_cast<char *>(with.args) + 4);
  with.CheckRefused("OPABI-D-010", {"multiple of 8"});
  with.kernel.n_args = 0;
  with.CheckTaken();
}

TEST_CASE("test_argument_name_wrong_refused") {
  WithArguments with;
  for (const char *name : {"", "2d", "a b", "\xFF"}) {
    with.args[1].name = name;
    with.CheckRefused("OPABI-D-010", {"argument 1: its name"});
  }
  with.args[1].name = nullptr;
  with.CheckRefused("OPABI-D-010", {"argument 1: its name is NULL"});
}

TEST_CASE("test_argument_name_twice_refused") {
  WithArguments with;
  with.args[2].name = "sigma";
  with.CheckRefused("OPABI-D-010", {"argument 2 'sigma'", "argument 0"});
}

TEST_CASE("test_argument_dtype_unknown_refused") {
  WithArguments with;
  for (uint32_t dtype : {0x00014005u, 0x00021002u, static_cast<uint32_t>(OPABI_DTYPE_UNSET)}) {
    with.args[2].dtype = dtype;
    with.CheckRefused("OPABI-D-010", {"argument 2 'anything'", "dtype 0x"});
  }
}

TEST_CASE("test_argument_ndim_out_of_range_refused") {
  WithArguments with;
  for (int32_t ndim : {-2, 16}) {
    with.args[2].ndim = ndim;
    with.CheckRefused("OPABI-D-010", {"argument 2 'anything'", std::to_string(ndim).c_str()});
  }
}

TEST_CASE("test_argument_reserved_not_zero_refused") {
  WithArguments with;
  with.args[0].reserved = 7;
  with.CheckRefused("OPABI-D-010", {"argument 0 'sigma'", "reserved is 7"});
}

TEST_CASE("test_argument_doc_not_utf8_refused") {  // OPABI-D-014
  WithArguments with;
  with.args[1].doc = "\xC3(";
  with.CheckRefused("OPABI-D-014", {"argument 1 'sizes': its doc"});
}

// ---- OPABI-D-018: defaults
// -------------------------------------------------------------------------

TEST_CASE("test_default_of_another_type_refused") {
  WithArguments with;
  with.scalar.dtype = OPABI_INT32;
  with.CheckRefused("OPABI-D-018", {"argument 0 'sigma'", "int32", "float32"});
  with.args[0].dtype = OPABI_DTYPE_ANY;
  with.CheckTaken();
  with.scalar.dtype = 0x00014005;
  with.CheckRefused("OPABI-D-018", {"dtype 0x00014005"});
}

TEST_CASE("test_default_of_another_rank_refused") {
  WithArguments with;
  with.args[1].ndim = 1;
  with.CheckRefused("OPABI-D-018", {"argument 1 'sizes'", "ndim is 2", "1"});
  with.args[1].ndim = OPABI_NDIM_ANY;
  with.CheckTaken();
  for (int32_t ndim : {-1, 16, INT32_MAX}) {
    with.array.ndim = ndim;
    with.CheckRefused("OPABI-D-018", {std::to_string(ndim).c_str(), "0 to 15"});
  }
}

TEST_CASE("test_default_on_the_gpu_refused") {
  WithArguments with;
  with.scalar.device_type = OPABI_CUDA;
  with.CheckRefused("OPABI-D-018", {"device_type is 2", "OPABI_CPU"});
}

TEST_CASE("test_default_byte_offset_refused") {
  WithArguments with;
  with.scalar.byte_offset = 4;
  with.CheckRefused("OPABI-D-018", {"byte_offset is 4"});
}

TEST_CASE("test_default_pointers_null_refused_where_needed") {
  WithArguments with;
  with.array.shape = nullptr;
  with.CheckRefused("OPABI-D-018", {"shape is NULL"});
  with.array.shape = with.shape;
  with.array.strides = nullptr;
  with.CheckRefused("OPABI-D-018", {"strides is NULL"});
  with.array.strides = with.strides;
  with.array.data = nullptr;
  with.CheckRefused("OPABI-D-018", {"data is NULL"});
  with.shape[0] = 0;
  with.CheckTaken();
}

TEST_CASE("test_default_misaligned_refused") {
  WithArguments with;
  with.array.data = reinterpret_cast<char *>(with.sizes) + 4;
  with.CheckRefused("OPABI-D-018", {"data is at no multiple of 8"});
  with.array.data = with.sizes;
  with.array.shape = reinterpret_cast<const int64_t *>(reinterpret_cast<char *>(with.shape) + 4);
  with.CheckRefused("OPABI-D-018", {"no multiple of 8"});
  with.args[1].default_value =
      reinterpret_cast<const opabi_tensor *>(reinterpret_cast<char *>(&with.array) + 1);
  with.CheckRefused("OPABI-D-018", {"argument 1 'sizes'", "no multiple of 8"});
}

TEST_CASE("test_default_extent_negative_refused") {
  WithArguments with;
  with.shape[1] = -3;
  with.CheckRefused("OPABI-D-018", {"extent 1 is -3"});
}

TEST_CASE("test_default_too_large_refused") {
  WithArguments with;
  with.shape[0] = INT64_MAX;
  with.CheckRefused("OPABI-D-018", {"2^30 bytes"});
  with.shape[0] = 0;  // no elements, but a product that overflows on the way to none
  with.shape[1] = INT64_MAX;
  with.CheckRefused("OPABI-D-018", {"2^30 bytes"});
}

TEST_CASE("test_default_not_contiguous_refused") {
  WithArguments with;
  with.strides[0] = 1;
  with.strides[1] = 2;
  with.CheckRefused("OPABI-D-018", {"stride 1 is 2, expected 1"});
  with.strides[1] = 1;
  with.CheckRefused("OPABI-D-018", {"stride 0 is 1, expected 3"});
}

TEST_CASE("test_default_stride_of_single_extent_taken") {
  WithArguments with;
  with.shape[0] = 1;
  with.strides[0] = 77;
  with.CheckTaken();
}

}  // namespace
}  // namespace opabi
