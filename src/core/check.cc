// SPDX-License-Identifier: Apache-2.0
// The rules of kind D: what a descriptor must be. A host checks them all before it uses a kernel.
//
//   OPABI-D-001  A library MUST export a function opabi_library_v1 that returns one pointer, not
//                NULL and the same each time.
//   OPABI-D-002  A descriptor MUST lie at a multiple of 8 and begin with OPABI_MAGIC.
//   OPABI-D-003  struct_size MUST be at least OPABI_KERNEL_SIZE_MIN for a kernel, the size of ABI 1.0
//                for a library, and a multiple of 8.
//   OPABI-D-004  The major version in abi_min MUST be the host's, and the minor MUST NOT be above
//                it.
//   OPABI-D-005  `critical` MUST NOT have a bit that the host does not know.
//   OPABI-D-006  The name of a library or kernel MUST be [A-Za-z_][A-Za-z0-9_]* of at most 255
//                bytes, and a kernel's name MUST NOT be that of another kernel of its library.
//   OPABI-D-007  `run` MUST NOT be NULL, unless specialize gives it.
//   OPABI-D-008  `setup` MUST NOT be NULL where the signature leaves something open ("?"), unless
//                specialize gives it.
//   OPABI-D-009  `signature` MUST NOT be NULL, and MUST keep the rules of kind S.
//   OPABI-D-010  n_args MUST be 0 .. 64, and `args` MUST NOT be NULL unless it is 0. An argument's
//                name MUST be as in OPABI-D-006 and unique in its kernel, its dtype MUST be one of
//                the ABI or OPABI_DTYPE_ANY, its ndim MUST be -1 .. 15, and its `reserved` MUST be
//                0.
//   OPABI-D-011  device_type MUST be OPABI_CPU or OPABI_CUDA.
//   OPABI-D-012  `create` and `destroy` MUST be given both or neither.
//   OPABI-D-013  n_kernels MUST be 0 .. 65536; `kernels`, unless it is 0, and its entries MUST NOT
//                be NULL.
//   OPABI-D-014  A string MUST be UTF-8 and MUST NOT be longer than 16384 bytes if it is a
//                signature, 255 if a version, 1048576 if a doc.
//   OPABI-D-015  OPABI_DEVICE_TABLES MUST NOT be set unless device_type is OPABI_CUDA.
//   OPABI-D-016  A library MUST load with all its symbols resolved.
//   OPABI-D-017  `save` and `restore` MUST be given both or neither, and MUST NOT be given without
//                create.
//   OPABI-D-018  An argument's default MUST be a tensor in host memory with the dtype and the rank
//                that the argument declares, if it does; contiguous, aligned, of at most 2^30
//                bytes, with byte_offset 0, and with shape, strides and data that are not NULL
//                where they are needed.
#include "core/check.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "core/check_parts.h"
#include "core/error.h"

namespace opabi {
namespace {

constexpr int64_t kMaxKernels = 65536;
constexpr int64_t kMaxSignature = 16384, kMaxDoc = 1 << 20;  // bytes, the NUL aside
constexpr uint32_t kKnownCritical =
    OPABI_WHOLE_BATCH | OPABI_SETUP_READS_DATA | OPABI_DEVICE_TABLES;

/// What is wrong with one descriptor: thrown at once, or collected.
class Report {
 public:
  /// "kernel", " 2", " of library 'mylib'": its name, once it can be read, stands for the number.
  Report(std::string kind, std::string number, std::string suffix, std::vector<Broken> *collected)
      : kind_(std::move(kind)),
        suffix_(std::move(suffix)),
        label_((number.empty() ? "the " : "") + kind_ + number + suffix_),
        collected_(collected) {}

  const std::string &label() const { return label_; }
  const std::string &name() const { return name_; }  // "" until it is set
  std::vector<Broken> *collected() const { return collected_; }

  void SetName(const char *name) {
    if (!NameFault(name).empty()) return;
    name_ = name;
    label_ = kind_ + " '" + name_ + "'" + suffix_;
  }

  void Break(const std::string &rule, const std::string &fault) {
    std::string message = label_ + ": " + fault;
    if (!collected_) throw Error(Kind::kValue, rule, message);
    collected_->push_back({rule, message});
  }

  /// Whether the rule is kept: `fault` is "".
  bool Check(const char *rule, const std::string &fault) {
    if (!fault.empty()) Break(rule, fault);
    return fault.empty();
  }

 private:
  std::string kind_, suffix_, label_, name_;
  std::vector<Broken> *collected_;
};

// ---- What kernels and libraries begin with: each function relies on those before it -------------

template <typename Descriptor>
std::string MagicFault(const Descriptor *descriptor) {
  if (!descriptor) return "the descriptor is NULL.";
  if (!Aligned(descriptor, 8)) return "the descriptor's address is no multiple of 8.";
  if (descriptor->magic == OPABI_MAGIC) return "";
  char found[24];
  std::snprintf(found, sizeof found, "0x%016" PRIX64, descriptor->magic);
  return std::string("its magic is ") + found +
         ", expected OPABI_MAGIC: this is no descriptor of opabi.";
}

template <typename Descriptor>
std::string SizeFault(const Descriptor &descriptor, const char *type, size_t minimum) {
  if (descriptor.struct_size >= minimum && descriptor.struct_size % 8 == 0) return "";
  return "struct_size is " + std::to_string(descriptor.struct_size) + ", expected at least " +
         std::to_string(minimum) + " and a multiple of 8. Set it to sizeof(" + type + ").";
}

std::string VersionFault(uint32_t abi_min) {
  uint32_t major = abi_min >> 16, minor = abi_min & 0xFFFF;
  if (major == OPABI_MAJOR && minor <= OPABI_MINOR) return "";
  std::string needs = "it needs ABI " + std::to_string(major) + "." + std::to_string(minor) +
                      ", this host offers " + std::to_string(OPABI_MAJOR) + "." +
                      std::to_string(OPABI_MINOR);
  if (major == OPABI_MAJOR) return needs + ". Update opabi, or build it with a lower OPABI_NEEDS.";
  return needs + ". Majors must be equal: build it with the opabi.h of this host.";
}

template <typename Descriptor>
bool CheckHead(const Descriptor *descriptor, const char *type, size_t minimum, Report &report) {
  if (!report.Check("OPABI-D-002", MagicFault(descriptor))) return false;
  if (!report.Check("OPABI-D-003", SizeFault(*descriptor, type, minimum))) return false;
  if (descriptor->abi_min >> 16 == OPABI_MAJOR) report.SetName(descriptor->name);
  return report.Check("OPABI-D-004", VersionFault(descriptor->abi_min));
}

/// Fields past struct_size are zero, those past what this core knows are left out.
template <typename Descriptor>
Descriptor CopyKnown(const Descriptor &descriptor) {
  Descriptor copy{};
  std::memcpy(&copy, &descriptor, std::min<size_t>(descriptor.struct_size, sizeof copy));
  return copy;
}

/// D-014 for one string, NULL being right.
std::string StringFault(const std::string &what, const char *text, int64_t limit) {
  std::string fault = text ? TextFault(text, limit) : "";
  return fault.empty() ? "" : what + " " + fault;
}

// ---- Kernels ------------------------------------------------------------------------------------

std::string CriticalFault(uint32_t critical) {
  std::string unknown;
  for (int bit = 0; bit < 32; bit++) {
    if (!(critical >> bit & 1) || kKnownCritical >> bit & 1) continue;
    unknown += (unknown.empty() ? "bit " : ", ") + std::to_string(bit);
  }
  if (unknown.empty()) return "";
  return "it has critical traits that this host does not know: " + unknown +
         ". Known are OPABI_WHOLE_BATCH (bit 0), OPABI_SETUP_READS_DATA (1), OPABI_DEVICE_TABLES " +
         "(2). Update opabi, or unset them.";
}

std::string RunFault(const opabi_kernel &kernel) {
  if (kernel.run || kernel.specialize) return "";
  return "run is NULL, and there is no specialize to give it. Set run.";
}

std::string DeviceFault(const opabi_kernel &kernel) {
  if (kernel.device_type == OPABI_CPU || kernel.device_type == OPABI_CUDA) return "";
  return "device_type is " + std::to_string(kernel.device_type) +
         ", expected OPABI_CPU (1) or OPABI_CUDA (2).";
}

/// Of two functions that need each other.
std::string PairFault(bool first, bool second, const std::string &one, const std::string &other) {
  if (first == second) return "";
  return (first ? one + " is set without " + other : other + " is set without " + one) +
         ". Set both, or neither.";
}

std::string DeviceTablesFault(const opabi_kernel &kernel) {
  if (!(kernel.critical & OPABI_DEVICE_TABLES) || kernel.device_type == OPABI_CUDA) return "";
  return "it has the trait OPABI_DEVICE_TABLES, expected device_type OPABI_CUDA (2) with it, "
         "found " +
         std::to_string(kernel.device_type) + ". Unset the trait.";
}

std::string StateFault(const opabi_kernel &kernel) {
  if (kernel.save && kernel.restore && !kernel.create) {
    return "save and restore are set without create, whose instance they keep. Unset them, or set "
           "create and destroy.";
  }
  return PairFault(kernel.save, kernel.restore, "save", "restore");
}

std::string StringsFault(const opabi_kernel &kernel) {
  std::string fault = StringFault("its signature", kernel.signature, kMaxSignature);
  if (fault.empty()) fault = StringFault("its doc", kernel.doc, kMaxDoc);
  for (int32_t a = 0; a < kernel.n_args && fault.empty(); a++) {
    fault = StringFault(ArgumentLabel(kernel, a) + ": its doc", kernel.args[a].doc, kMaxDoc);
  }
  return fault;
}

std::string SetupFault(const opabi_kernel &kernel, const Signature &signature) {
  if (!signature.needs_setup() || kernel.setup || kernel.specialize) return "";
  return "setup is NULL, but the signature \"" + signature.text() +
         "\" leaves to it what is \"?\". Set setup, or write the types and extents out.";
}

void CheckSignature(const opabi_kernel &kernel, Report &report) {
  if (!kernel.signature) {
    return report.Break("OPABI-D-009", "signature is NULL. Set it, e.g. \"T[...] -> T[...]\".");
  }
  std::optional<Signature> signature;
  try {
    signature = ParseSignature(kernel);
  } catch (const Error &error) {
    return report.Break(error.rule(), error.message());
  }
  report.Check("OPABI-D-008", SetupFault(kernel, *signature));
}

void Check(const opabi_kernel *descriptor, Report &report) {
  if (!CheckHead(descriptor, "opabi_kernel", OPABI_KERNEL_SIZE_MIN, report)) return;
  if (!report.Check("OPABI-D-005", CriticalFault(descriptor->critical))) return;
  opabi_kernel kernel = Normalize(*descriptor);
  std::string name_fault = NameFault(kernel.name);
  report.Check("OPABI-D-006", name_fault.empty() ? "" : "its name " + name_fault);
  report.Check("OPABI-D-007", RunFault(kernel));
  report.Check("OPABI-D-011", DeviceFault(kernel));
  report.Check("OPABI-D-012", PairFault(kernel.create, kernel.destroy, "create", "destroy"));
  report.Check("OPABI-D-015", DeviceTablesFault(kernel));
  report.Check("OPABI-D-017", StateFault(kernel));
  if (!report.Check("OPABI-D-010", ArgumentsFault(kernel))) return;
  if (!report.Check("OPABI-D-014", StringsFault(kernel))) return;
  report.Check("OPABI-D-018", DefaultsFault(kernel));
  CheckSignature(kernel, report);
}

// ---- Libraries ----------------------------------------------------------------------------------

std::string TableFault(const opabi_library &library) {
  std::string count = "n_kernels is " + std::to_string(library.n_kernels);
  if (library.n_kernels < 0 || library.n_kernels > kMaxKernels) {
    return count + ", expected 0 to " + std::to_string(kMaxKernels) + ".";
  }
  if (library.n_kernels == 0) return "";
  if (!library.kernels) return count + ", but kernels is NULL.";
  if (!Aligned(library.kernels, 8)) return count + ", but kernels is at no multiple of 8.";
  for (int64_t k = 0; k < library.n_kernels; k++) {
    if (!library.kernels[k]) return count + ", but kernels[" + std::to_string(k) + "] is NULL.";
  }
  return "";
}

/// Of the kernel's name among those before it. `numbers` is which kernel has which name.
std::string RepeatFault(const std::string &name, int64_t k,
                        std::map<std::string, int64_t> *numbers) {
  auto [entry, is_new] = numbers->emplace(name, k);
  if (is_new) return "";
  return "kernels " + std::to_string(entry->second) + " and " + std::to_string(k) +
         " are both named '" + name + "'. Rename one.";
}

void Check(const opabi_library *descriptor, Report &report) {
  if (!CheckHead(descriptor, "opabi_library", OPABI_LIBRARY_SIZE_1_0, report)) return;
  opabi_library library = Normalize(*descriptor);
  std::string name_fault = NameFault(library.name);
  report.Check("OPABI-D-006", name_fault.empty() ? "" : "its name " + name_fault);
  report.Check("OPABI-D-014", StringFault("its version", library.version, kMaxName));
  report.Check("OPABI-D-014", StringFault("its doc", library.doc, kMaxDoc));
  if (!report.Check("OPABI-D-013", TableFault(library))) return;
  std::map<std::string, int64_t> numbers;
  for (int64_t k = 0; k < library.n_kernels; k++) {
    Report kernel_report("kernel", " " + std::to_string(k), " of " + report.label(),
                         report.collected());
    Check(library.kernels[k], kernel_report);
    if (kernel_report.name().empty()) continue;
    report.Check("OPABI-D-006", RepeatFault(kernel_report.name(), k, &numbers));
  }
}

}  // namespace

opabi_kernel Normalize(const opabi_kernel &kernel) { return CopyKnown(kernel); }

opabi_library Normalize(const opabi_library &library) { return CopyKnown(library); }

Signature ParseSignature(const opabi_kernel &kernel) {
  std::vector<const opabi_arg *> args;
  for (int32_t a = 0; a < kernel.n_args; a++) args.push_back(&kernel.args[a]);
  return Signature::Parse(kernel.signature, args);
}

void CheckKernel(const opabi_kernel *kernel) {
  Report report("kernel", "", "", nullptr);
  Check(kernel, report);
}

void CheckLibrary(const opabi_library *library, const std::string &path) {
  Report report("library", "", " (" + path + ")", nullptr);
  Check(library, report);
}

std::vector<Broken> AllBroken(const opabi_kernel *kernel) {
  std::vector<Broken> broken;
  Report report("kernel", "", "", &broken);
  Check(kernel, report);
  return broken;
}

std::vector<Broken> AllBroken(const opabi_library *library, const std::string &path) {
  std::vector<Broken> broken;
  Report report("library", "", " (" + path + ")", &broken);
  Check(library, report);
  return broken;
}

}  // namespace opabi
