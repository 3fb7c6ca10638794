// SPDX-License-Identifier: Apache-2.0
#include "core/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "core/suggest.h"

namespace opabi {
namespace {

constexpr int kLaterMajors = 9;

/// For messages, whatever bytes it has.
std::string Shown(const std::string &text) {
  return CleanMessage(text.data(), static_cast<int64_t>(text.size()));
}

[[noreturn]] void FailLoad(const std::string &path, const std::string &rule,
                           const std::string &fault) {
  throw Error(Kind::kRuntime, rule, "library '" + Shown(path) + "' does not load: " + fault);
}

/// How far into an ELF file the memory reaches that its program headers map, or 0. The dynamic linker
/// touches all of it, and where the file ends before, that is a SIGBUS.
int64_t SegmentsEnd(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char *>(&header), sizeof header)) return 0;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return 0;
  uint64_t end = 0;
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    if (!file.read(reinterpret_cast<char *>(&segment), sizeof segment)) break;
    if (segment.p_type == PT_LOAD) end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  return static_cast<int64_t>(std::min<uint64_t>(end, INT64_MAX));
}

/// What the dynamic linker says badly or not at all: it takes "" for the program itself, waits for
/// a writer of a pipe, and calls a directory unreadable.
std::string FileFault(const std::string &path) {
  if (path.empty()) return "its path is empty.";
  if (path.find('\0') != std::string::npos) return "its path has a NUL in it.";
  if (path.find('/') == std::string::npos) return "";
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? "there is no such file." : std::string(std::strerror(errno)) + ".";
  }
  if (S_ISDIR(info.st_mode)) return "it is a directory. Name the file in it.";
  if (!S_ISREG(info.st_mode)) return "it is no regular file.";
  if (info.st_size >= SegmentsEnd(path)) return "";
  return "it is cut off: " + std::to_string(info.st_size) + " bytes are left of at least " +
         std::to_string(SegmentsEnd(path)) + ". Build or copy it again.";
}

/// What to do about the dynamic linker's error.
std::string Advice(const std::string &path, const std::string &error) {
  auto says = [&](const char *text) { return error.find(text) != std::string::npos; };
  if (says("undefined symbol")) return " Link the library that defines it into this one.";
  if (says("invalid ELF header") || says("file too short") || says("wrong ELF class")) {
    return " It is no shared library of this platform: compile it first.";
  }
  if (path.find('/') == std::string::npos) {
    return " It was looked for where the system has its libraries: for a file, write './" +
           Shown(path) + "'.";
  }
  return " Check that this library, and those it needs, are there and of this platform.";
}

void *Load(const std::string &path) {
  std::string fault = FileFault(path);
  if (!fault.empty()) FailLoad(path, "", fault);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle) return handle;
  const char *text = dlerror();
  std::string error = text ? Shown(text) : "no reason is known";
  bool unresolved = error.find("undefined symbol") != std::string::npos;
  FailLoad(path, unresolved ? "OPABI-D-016" : "", error + "." + Advice(path, error));
}

opabi_library_fn EntryPoint(const std::string &path, void *handle) {
  std::string stem = "opabi_library_v";
  std::string wanted = stem + std::to_string(OPABI_MAJOR);
  if (void *entry = dlsym(handle, wanted.c_str())) return reinterpret_cast<opabi_library_fn>(entry);
  for (int major = 1; major <= kLaterMajors; major++) {
    std::string other = stem + std::to_string(major);
    if (!dlsym(handle, other.c_str())) continue;
    FailLoad(path, "OPABI-D-001",
             "it exports " + other + " and no " + wanted + ": it needs ABI " +
                 std::to_string(major) + ", this host offers " + std::to_string(OPABI_MAJOR) + "." +
                 std::to_string(OPABI_MINOR) + ". Build it with the opabi.h of this host.");
  }
  FailLoad(path, "OPABI-D-001",
           "it exports no function " + wanted +
               ". Define it with OPABI_LIBRARY(...), once in the library.");
}

/// What to write instead of a name that is none.
std::string NamesText(const opabi_library &library, const std::string &wrong) {
  constexpr size_t kShown = 50;
  std::vector<std::string> names;
  for (int64_t k = 0; k < library.n_kernels; k++) names.push_back(library.kernels[k]->name);
  if (names.empty()) return "It has none.";
  std::string nearest = SuggestName(wrong, names);
  std::string text = nearest.empty() ? "It has " : "Did you mean '" + nearest + "'? It has ";
  for (size_t k = 0; k < std::min(names.size(), kShown); k++)
    text += (k ? ", '" : "'") + names[k] + "'";
  return text + (names.size() > kShown ? " and more." : ".");
}

}  // namespace

const opabi_library *OpenLibrary(const std::string &path) {
  opabi_library_fn entry = EntryPoint(path, Load(path));
  const opabi_library *library = entry();
  if (!library) FailLoad(path, "OPABI-D-001", "opabi_library_v1 returns NULL.");
  if (entry() != library) {
    FailLoad(path, "OPABI-D-001", "opabi_library_v1 returns another pointer at each call.");
  }
  CheckLibrary(library, Shown(path));
  return library;
}

std::shared_ptr<Kernel> OpenKernel(const std::string &path, const std::string &name) {
  const opabi_library library = Normalize(*OpenLibrary(path));
  for (int64_t k = 0; k < library.n_kernels; k++) {
    if (name != library.kernels[k]->name) continue;
    return Kernel::FromLibrary(library.kernels[k], library.name);
  }
  throw Error(Kind::kValue, "",
              "library '" + std::string(library.name) + "' (" + Shown(path) + ") has no kernel '" +
                  Shown(name) + "'. " + NamesText(library, name));
}

}  // namespace opabi
