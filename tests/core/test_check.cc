// SPDX-License-Identifier: Apache-2.0
// Descriptors built by hand, each with one fault: refused by the rule's id, without reading too
// far.
#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "core/check.h"
#include "descriptors.h"
#include "thrown.h"

namespace opabi {
namespace {

int32_t SetupNothing(const opabi_setup *) { return OPABI_OK; }
int32_t CreateNothing(const opabi_create *) { return OPABI_OK; }
void DestroyNothing(void *, void *) {}
int32_t SpecializeNothing(const opabi_specialize *) { return OPABI_OK; }
int32_t KeepNothing(const opabi_state *) { return OPABI_OK; }

/// Refused for this rule alone, in a text with all of `parts`; a checker reports the same.
void CheckRefused(const opabi_kernel *kernel, const std::string &rule,
                  std::initializer_list<const char *> parts) {
  auto thrown = ThrownBy([&] { CheckKernel(kernel); });
  CHECK(thrown.rule == rule);
  CHECK(thrown.kind == Kind::kValue);
  for (const char *part : parts) CHECK_SAYS(thrown, part);
  std::vector<Broken> broken = AllBroken(kernel);
  REQUIRE(broken.size() == 1);
  CHECK(broken[0].rule == rule);
  CHECK("[" + rule + "] " + broken[0].message == thrown.what);
}

void CheckRefused(const opabi_kernel &kernel, const std::string &rule,
                  std::initializer_list<const char *> parts) {
  CheckRefused(&kernel, rule, parts);
}

void CheckTaken(const opabi_kernel &kernel) {
  CHECK_NOTHROW(CheckKernel(&kernel));
  CHECK(AllBroken(&kernel).empty());
}

// ---- The handshake
// ---------------------------------------------------------------------------------

TEST_CASE("test_kernel_good_taken") { CheckTaken(GoodKernel()); }

TEST_CASE("test_magic_foreign_refused") {  // OPABI-D-002
  opabi_kernel kernel = GoodKernel();
  kernel.magic = 0x1234;
  CheckRefused(kernel, "OPABI-D-002", {"0x0000000000001234", "OPABI_MAGIC"});
}

TEST_CASE("test_magic_foreign_nothing_else_read") {
  uint64_t foreign = 0x7F454C46;
  MemoryEnd memory(&foreign, sizeof foreign);
  CheckRefused(memory.As<opabi_kernel>(), "OPABI-D-002", {"0x000000007F454C46"});
}

TEST_CASE("test_descriptor_null_refused") {
  CheckRefused(static_cast<const opabi_kernel *>(nullptr), "OPABI-D-002", {"NULL"});
}

TEST_CASE("test_descriptor_misaligned_refused") {
  alignas(8) char bytes[sizeof(opabi_kernel) + 8];
  opabi_kernel kernel = GoodKernel();
  std::memcpy(bytes + 4, &kernel, sizeof kernel);
  CheckRefused(reinterpret_cast<const opabi_kernel *>(bytes + 4), "OPABI-D-002", {"multiple of 8"});
}

TEST_CASE("test_struct_size_below_minimum_refused") {  // OPABI-D-003
  opabi_kernel kernel = GoodKernel();
  for (uint32_t size : {0u, 16u, 104u}) {
    kernel.struct_size = size;
    CheckRefused(kernel, "OPABI-D-003",
                 {std::to_string(size).c_str(), "112", "sizeof(opabi_kernel)"});
  }
}

TEST_CASE("test_struct_size_below_first_minor_fields_not_read") {
  opabi_kernel kernel = GoodKernel();
  kernel.struct_size = 16;
  MemoryEnd memory(&kernel, 16);
  CheckRefused(memory.As<opabi_kernel>(), "OPABI-D-003", {"struct_size is 16"});
}

TEST_CASE("test_struct_size_up_to_run_taken") {  // OPABI-D-003
  static_assert(OPABI_KERNEL_SIZE_MIN == offsetof(opabi_kernel, release));
  opabi_kernel kernel = GoodKernel();
  kernel.struct_size = OPABI_KERNEL_SIZE_MIN;
  MemoryEnd memory(&kernel, OPABI_KERNEL_SIZE_MIN);
  CHECK_NOTHROW(CheckKernel(memory.As<opabi_kernel>()));
  CHECK(!Normalize(*memory.As<opabi_kernel>()).release);
}

TEST_CASE("test_struct_size_no_multiple_of_8_refused") {
  opabi_kernel kernel = GoodKernel();
  kernel.struct_size = sizeof kernel + 4;
  CheckRefused(kernel, "OPABI-D-003", {"140", "multiple of 8"});
}

TEST_CASE("test_struct_size_first_minor_nothing_beyond_read") {
  opabi_kernel kernel = GoodKernel();
  MemoryEnd memory(&kernel, OPABI_KERNEL_SIZE_1_0);
  CHECK_NOTHROW(CheckKernel(memory.As<opabi_kernel>()));
  opabi_kernel known = Normalize(*memory.As<opabi_kernel>());
  CHECK(std::memcmp(&kernel, &known, sizeof kernel) == 0);
}

TEST_CASE("test_struct_size_larger_taken") {  // OPABI-H-001
  struct Later {
    opabi_kernel kernel = GoodKernel();
    uint64_t canary[8] = {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};
  } later;
  later.kernel.struct_size = sizeof later;
  MemoryEnd memory(&later, sizeof later);
  CHECK_NOTHROW(CheckKernel(memory.As<opabi_kernel>()));
}

TEST_CASE("test_struct_size_larger_than_any_taken") {
  opabi_kernel kernel = GoodKernel();
  kernel.struct_size =
      0xFFFFFFF8;  // a host of this minor reads what it knows, whatever the size says
  CheckTaken(kernel);
}

TEST_CASE("test_abi_other_major_refused") {  // OPABI-D-004
  opabi_kernel kernel = GoodKernel();
  kernel.abi_min = OPABI_VERSION(2, 0);
  CheckRefused(kernel, "OPABI-D-004", {"ABI 2.0", "1.0"});
  kernel.abi_min = OPABI_VERSION(0, 9);
  CheckRefused(kernel, "OPABI-D-004", {"ABI 0.9", "1.0"});
}

TEST_CASE("test_abi_other_major_fields_not_followed") {
  opabi_kernel kernel = GoodKernel();
  kernel.abi_min = OPABI_VERSION(2, 0);
  kernel.name =
      reinterpret_cast<const char *>(8);  // in another major, these bytes may be no pointer
  CheckRefused(kernel, "OPABI-D-004", {"the kernel"});
}

TEST_CASE("test_abi_newer_minor_refused") {
  opabi_kernel kernel = GoodKernel();
  kernel.abi_min = OPABI_VERSION(1, 7);
  CheckRefused(kernel, "OPABI-D-004", {"kernel 'blur'", "ABI 1.7", "1.0", "OPABI_NEEDS"});
}

TEST_CASE("test_critical_unknown_bit_refused") {  // OPABI-D-005
  opabi_kernel kernel = GoodKernel();
  kernel.critical = OPABI_WHOLE_BATCH | 1u << 7 | 1u << 31;
  CheckRefused(kernel, "OPABI-D-005", {"kernel 'blur'", "bit 7, 31", "OPABI_SETUP_READS_DATA"});
}

TEST_CASE("test_traits_unknown_bit_taken") {
  opabi_kernel kernel = GoodKernel();
  kernel.traits = ~0u;
  CheckTaken(kernel);
}

TEST_CASE("test_handshake_several_faults_named_in_order") {
  opabi_kernel kernel{};
  kernel.critical = ~0u;
  CheckRefused(kernel, "OPABI-D-002", {});
  kernel.magic = OPABI_MAGIC;
  CheckRefused(kernel, "OPABI-D-003", {});
  kernel.struct_size = sizeof kernel;
  CheckRefused(kernel, "OPABI-D-004", {});
  kernel.abi_min = OPABI_VERSION(1, 0);
  CheckRefused(kernel, "OPABI-D-005", {"the kernel"});
}

// ---- Kernels
// ---------------------------------------------------------------------------------------

TEST_CASE("test_name_wrong_refused") {  // OPABI-D-006
  opabi_kernel kernel = GoodKernel();
  for (const char *name : {"", "2d", "a-b", "mylib.blur", "caf\xC3\xA9", "blur ", "\xFF"}) {
    kernel.name = name;
    CheckRefused(kernel, "OPABI-D-006", {"the kernel"});
  }
  kernel.name = nullptr;
  CheckRefused(kernel, "OPABI-D-006", {"NULL"});
}

TEST_CASE("test_name_right_taken") {
  opabi_kernel kernel = GoodKernel();
  std::string longest(255, 'x');
  for (const char *name : {"a", "_", "B2", "__init__", longest.c_str()}) {
    kernel.name = name;
    CheckTaken(kernel);
  }
}

TEST_CASE("test_name_without_end_not_read_beyond_limit") {
  MemoryEnd name(std::string(256, 'x'));
  opabi_kernel kernel = GoodKernel();
  kernel.name = name.As<char>();
  CheckRefused(kernel, "OPABI-D-006", {"longer than 255 bytes"});
}

TEST_CASE("test_run_null_refused_unless_specialize_gives_it") {  // OPABI-D-007
  opabi_kernel kernel = GoodKernel();
  kernel.run = nullptr;
  CheckRefused(kernel, "OPABI-D-007", {"kernel 'blur'", "run is NULL"});
  kernel.specialize = SpecializeNothing;
  CheckTaken(kernel);
}

TEST_CASE("test_setup_null_refused_where_signature_is_open") {  // OPABI-D-008
  opabi_kernel kernel = GoodKernel();
  for (const char *signature :
       {"T[n] -> T[?]", "T[n] -> ?[n]", "T[n] -> T[...?]", "T[n] -> T[<=?]"}) {
    kernel.signature = signature;
    CheckRefused(kernel, "OPABI-D-008", {"setup is NULL", signature});
    kernel.setup = SetupNothing;
    CheckTaken(kernel);
    kernel.setup = nullptr;
    kernel.specialize = SpecializeNothing;
    CheckTaken(kernel);
    kernel.specialize = nullptr;
  }
}

TEST_CASE("test_setup_given_taken_where_signature_says_all") {
  opabi_kernel kernel = GoodKernel();
  kernel.setup = SetupNothing;
  CheckTaken(kernel);
}

TEST_CASE("test_signature_null_refused") {  // OPABI-D-009
  opabi_kernel kernel = GoodKernel();
  kernel.signature = nullptr;
  CheckRefused(kernel, "OPABI-D-009", {"kernel 'blur'", "signature is NULL"});
}

TEST_CASE("test_signature_malformed_refused_by_its_own_rule") {
  opabi_kernel kernel = GoodKernel();
  kernel.signature = "T[h,w] T[h,w]";
  auto thrown = ThrownBy([&] { CheckKernel(&kernel); });
  CHECK(thrown.rule.rfind("OPABI-S-", 0) == 0);
  CHECK_SAYS(thrown, "kernel 'blur'");
  CHECK_SAYS(thrown, "T[h,w] T[h,w]");
  CHECK(AllBroken(&kernel).front().rule == thrown.rule);
}

TEST_CASE("test_device_type_unknown_refused") {  // OPABI-D-011
  opabi_kernel kernel = GoodKernel();
  for (int32_t device : {0, 3, -1}) {
    kernel.device_type = device;
    CheckRefused(kernel, "OPABI-D-011", {std::to_string(device).c_str(), "OPABI_CPU"});
  }
  kernel.device_type = OPABI_CUDA;
  CheckTaken(kernel);
}

TEST_CASE("test_create_without_destroy_refused") {  // OPABI-D-012
  opabi_kernel kernel = GoodKernel();
  kernel.create = CreateNothing;
  CheckRefused(kernel, "OPABI-D-012", {"create is set without destroy"});
  kernel.destroy = DestroyNothing;
  CheckTaken(kernel);
  kernel.create = nullptr;
  CheckRefused(kernel, "OPABI-D-012", {"destroy is set without create"});
}

TEST_CASE("test_text_not_utf8_refused") {  // OPABI-D-014
  opabi_kernel kernel = GoodKernel();
  for (const char *doc :
       {"\xFF", "ab\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"}) {
    kernel.doc = doc;
    CheckRefused(kernel, "OPABI-D-014", {"its doc", "UTF-8"});
  }
  kernel.doc = "d\xC3\xA9j\xC3\xA0 \xE2\x82\xAC \xF0\x9F\x98\x80";
  CheckTaken(kernel);
  kernel.signature = "T[\xFF] -> T";
  CheckRefused(kernel, "OPABI-D-014", {"its signature", "byte 2"});
}

TEST_CASE("test_text_without_end_not_read_beyond_limit") {
  opabi_kernel kernel = GoodKernel();
  MemoryEnd signature(std::string(16385, 'x'));
  kernel.signature = signature.As<char>();
  CheckRefused(kernel, "OPABI-D-014", {"its signature", "16384"});
  kernel = GoodKernel();
  MemoryEnd doc(std::string((1 << 20) + 1, 'x'));
  kernel.doc = doc.As<char>();
  CheckRefused(kernel, "OPABI-D-014", {"its doc", "1048576"});
}

TEST_CASE("test_doc_of_the_limit_taken") {
  opabi_kernel kernel = GoodKernel();
  std::string doc(1 << 20, 'x');
  kernel.doc = doc.c_str();
  CheckTaken(kernel);
}

TEST_CASE("test_device_tables_on_cpu_refused") {  // OPABI-D-015
  opabi_kernel kernel = GoodKernel();
  kernel.critical = OPABI_DEVICE_TABLES;
  CheckRefused(kernel, "OPABI-D-015", {"OPABI_DEVICE_TABLES", "OPABI_CUDA"});
  kernel.device_type = OPABI_CUDA;
  CheckTaken(kernel);
}

TEST_CASE("test_save_without_restore_or_create_refused") {  // OPABI-D-017
  opabi_kernel kernel = GoodKernel();
  kernel.save = KeepNothing;
  CheckRefused(kernel, "OPABI-D-017", {"save is set without restore"});
  kernel.restore = KeepNothing;
  CheckRefused(kernel, "OPABI-D-017", {"without create"});
  kernel.create = CreateNothing;
  kernel.destroy = DestroyNothing;
  CheckTaken(kernel);
  kernel.save = nullptr;
  CheckRefused(kernel, "OPABI-D-017", {"restore is set without save"});
}

TEST_CASE("test_all_broken_several_faults_lists_each") {
  opabi_kernel kernel = GoodKernel();
  kernel.name = "2d";
  kernel.run = nullptr;
  kernel.device_type = 9;
  kernel.destroy = DestroyNothing;
  kernel.signature = "T[n] -> ?[n]";
  std::vector<std::string> rules;
  for (const Broken &broken : AllBroken(&kernel)) rules.push_back(broken.rule);
  CHECK(rules == std::vector<std::string>{"OPABI-D-006", "OPABI-D-007", "OPABI-D-011",
                                          "OPABI-D-012", "OPABI-D-008"});
}

}  // namespace
}  // namespace opabi
