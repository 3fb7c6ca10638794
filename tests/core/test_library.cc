// SPDX-License-Identifier: Apache-2.0
// Shared libraries, right and wrong, each compiled from a few lines of C.
#include "core/library.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "thrown.h"

namespace opabi {
namespace {

namespace fs = std::filesystem;

const char kTwoKernels[] = R"(
#include "opabi/opabi.h"
static int32_t blur(const opabi_call *call) { (void)call; return OPABI_OK; }
static int32_t sharpen(const opabi_call *call) { (void)call; return OPABI_OK; }
OPABI_KERNEL(blur, "T[h,w] -> T[h,w]");
OPABI_KERNEL(sharpen, "T[h,w] -> T[h,w]");
OPABI_LIBRARY("mylib", "1.0.0", &blur_kernel, &sharpen_kernel)
)";

/// A folder for one test, removed after it.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "opabi-test-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()));
    path_ = pattern;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder &) = delete;

  std::string Path(const std::string &name) const { return (path_ / name).string(); }

  std::string Write(const std::string &name, const std::string &text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }

  /// A shared library of this C source.
  std::string Compile(const std::string &name, const std::string &source) const {
    fs::path include = fs::absolute(__FILE__).parent_path() / "../../include";
    const char *compiler = std::getenv("CC");
    std::string command = std::string(compiler ? compiler : "cc") + " -std=c99 -shared -fPIC -I'" +
                          include.string() + "' '" + Write(name + ".c", source) + "' -o '" +
                          Path(name) + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    return Path(name);
  }

 private:
  fs::path path_;
};

/// Does not load: the text has the path and the reason.
void CheckNotLoaded(const std::string &path, const std::string &rule, const std::string &part) {
  auto thrown = ThrownBy([&] { OpenLibrary(path); });
  CHECK(thrown.kind == Kind::kRuntime);
  CHECK(thrown.rule == rule);
  CHECK_SAYS(thrown, "'" + path + "'");
  CHECK_SAYS(thrown, part);
}

TEST_CASE("test_open_library_good_found_by_name") {
  Folder folder;
  std::string path = folder.Compile("libmylib.so", kTwoKernels);
  CHECK(OpenLibrary(path)->n_kernels == 2);
  std::shared_ptr<Kernel> kernel = OpenKernel(path, "sharpen");
  CHECK(kernel->name() == "mylib.sharpen");
  CHECK(kernel->signature().text() == "T[h,w] -> T[h,w]");
}

TEST_CASE("test_open_library_again_and_from_another_path_harmless") {
  Folder folder;
  std::string path = folder.Compile("libmylib.so", kTwoKernels), copy = folder.Path("copy.so");
  fs::copy_file(path, copy);
  fs::create_symlink(path, folder.Path("link.so"));
  const opabi_library *library = OpenLibrary(path);
  CHECK(OpenLibrary(path) == library);
  CHECK(OpenLibrary(folder.Path("link.so")) == library);
  CHECK(OpenLibrary(copy) != library);
  CHECK(OpenKernel(copy, "blur")->name() == "mylib.blur");
}

TEST_CASE("test_open_kernel_unknown_name_lists_those_there_are") {
  Folder folder;
  std::string path = folder.Compile("libmylib.so", kTwoKernels);
  auto thrown = ThrownBy([&] { OpenKernel(path, "blurr"); });
  CHECK(thrown.kind == Kind::kValue);
  CHECK_SAYS(thrown, path);
  CHECK_SAYS(thrown, "no kernel 'blurr'");
  CHECK_SAYS(thrown, "Did you mean 'blur'?");
  CHECK_SAYS(thrown, "'blur', 'sharpen'");
  CHECK(!ThrownBy([&] { OpenKernel(path, "median"); }).Says("Did you mean"));
}

TEST_CASE("test_open_kernel_unknown_name_in_an_empty_library") {
  Folder folder;
  std::string path = folder.Compile("libempty.so", R"(
#include "opabi/opabi.h"
OPABI_EXPORT const opabi_library *opabi_library_v1(void) {
  static const opabi_library library = {OPABI_MAGIC, sizeof library, OPABI_NEEDS, "mylib"};
  return &library;
}
)");
  CHECK_SAYS(ThrownBy([&] { OpenKernel(path, "blur"); }), "It has none.");
}

TEST_CASE("test_open_kernel_unknown_name_lists_no_more_than_50") {
  Folder folder;
  std::string kernels, table;
  for (int i = 0; i < 51; i++) {
    std::string name = "k" + std::to_string(i);
    kernels += "static int32_t " + name +
               "(const opabi_call *call) { (void)call; return OPABI_OK; }\n" + "OPABI_KERNEL(" +
               name + ", \"T -> T\");\n";
    table += ", &" + name + "_kernel";
    if (i < 49) continue;
    std::string path =
        folder.Compile("lib" + name + ".so", "#include \"opabi/opabi.h\"\n" + kernels +
                                                 "OPABI_LIBRARY(\"mylib\", \"1\"" + table + ")\n");
    auto thrown = ThrownBy([&] { OpenKernel(path, "unknown"); });
    CHECK_SAYS(thrown, "'k49'");
    CHECK(thrown.Says("and more") == (i == 50));
    CHECK(!thrown.Says("'k50'"));
  }
}

TEST_CASE("test_open_library_undefined_symbol_named") {  // OPABI-D-016
  Folder folder;
  std::string path = folder.Compile("libundefined.so", R"(
void nobody_defines_this(void);
const void *opabi_library_v1(void) { nobody_defines_this(); return 0; }
)");
  CheckNotLoaded(path, "OPABI-D-016", "nobody_defines_this");
  CheckNotLoaded(path, "OPABI-D-016", "Link the library that defines it");
}

TEST_CASE("test_open_library_entry_point_missing_refused") {  // OPABI-D-001
  Folder folder;
  CheckNotLoaded(folder.Compile("libother.so", "int other(void) { return 1; }"), "OPABI-D-001",
                 "no function opabi_library_v1");
}

TEST_CASE("test_open_library_of_another_major_names_both") {
  Folder folder;
  std::string path =
      folder.Compile("liblater.so", "const void *opabi_library_v2(void) { return 0; }");
  CheckNotLoaded(path, "OPABI-D-001", "needs ABI 2, this host offers 1.0");
}

TEST_CASE("test_open_library_entry_point_returning_null_refused") {
  Folder folder;
  std::string path =
      folder.Compile("libnull.so", "const void *opabi_library_v1(void) { return 0; }");
  CheckNotLoaded(path, "OPABI-D-001", "returns NULL");
}

TEST_CASE("test_open_library_entry_point_returning_another_pointer_refused") {
  Folder folder;
  std::string path = folder.Compile("libchanging.so", R"(
static long long tables[64];
static int calls;
const void *opabi_library_v1(void) { return tables + calls++; }
)");
  CheckNotLoaded(path, "OPABI-D-001", "another pointer");
}

TEST_CASE("test_open_library_broken_descriptor_refused") {
  Folder folder;
  std::string path = folder.Compile("libbroken.so", R"(
#include "opabi/opabi.h"
static int32_t blur(const opabi_call *call) { (void)call; return OPABI_OK; }
OPABI_KERNEL(blur, "T[h,w] T[h,w]");
OPABI_LIBRARY("mylib", "1.0.0", &blur_kernel)
)");
  auto thrown = ThrownBy([&] { OpenLibrary(path); });
  CHECK(thrown.kind == Kind::kValue);
  CHECK(thrown.rule.rfind("OPABI-S-", 0) == 0);
  CHECK_SAYS(thrown, "kernel 'blur' of library 'mylib' (" + path + ")");
}

TEST_CASE("test_open_library_no_library_refused") {
  Folder folder;
  CheckNotLoaded(folder.Write("text.so", "this is no library\n"), "", "no shared library");
  CheckNotLoaded(folder.Write("empty.so", ""), "", "no shared library");
  CheckNotLoaded(folder.Path("missing.so"), "", "no such file");
  CheckNotLoaded(folder.Path("."), "", "is a directory");
  CheckNotLoaded("", "", "path is empty");
  CHECK_SAYS(ThrownBy([] { OpenLibrary(std::string("text.so\0x", 9)); }),
             "'text.so' does not load: its path has a NUL");
  CHECK_SAYS(ThrownBy([] { OpenLibrary("./\xFF.so"); }), "'./\xEF\xBF\xBD.so'");
  CheckNotLoaded("libopabi_that_is_nowhere.so", "", "./libopabi_that_is_nowhere.so");
}

TEST_CASE("test_open_library_pipe_refused_not_hung") {
  Folder folder;
  REQUIRE(mkfifo(folder.Path("pipe.so").c_str(), 0600) == 0);
  CheckNotLoaded(folder.Path("pipe.so"), "", "no regular file");
}

TEST_CASE("test_open_library_after_a_failure_right") {
  Folder folder;
  std::string path = folder.Path("libmylib.so");
  CheckNotLoaded(path, "", "no such file");
  folder.Compile("libmylib.so", kTwoKernels);
  CHECK(OpenLibrary(path)->n_kernels == 2);
}

}  // namespace
}  // namespace opabi
