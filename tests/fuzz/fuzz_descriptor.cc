// SPDX-License-Identifier: Apache-2.0
// Descriptors: each is built right but for some faults, whose rules are known. The checks name no
// other rule, name one where there is a fault, and read nothing that a fault says is not there: all
// memory is of just the size that the descriptor tells, and where nothing else may be read,
// pointers lead nowhere.
//
// An input's bytes decide about faults and values; zeros mean none.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/dtype.h"
#include "core/error.h"

namespace opabi {
namespace {

#define REQUIRE_THAT(condition)                                                        \
  do {                                                                                 \
    if (condition) break;                                                              \
    std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
    std::abort();                                                                      \
  } while (false)

int32_t Run(const opabi_call *) { return OPABI_OK; }
int32_t Setup(const opabi_setup *) { return OPABI_OK; }
int32_t Create(const opabi_create *) { return OPABI_OK; }
void Destroy(void *, void *) {}
int32_t Specialize(const opabi_specialize *) { return OPABI_OK; }
int32_t Keep(const opabi_state *) { return OPABI_OK; }

struct Written {
  const char *text;
  const char *rule;  // that it breaks, or ""
  bool open;         // needs setup
};
constexpr Written kSignatures[] = {
    {"T[h,w] -> T[h,w]", "", false},      {"-> float32[3]", "", false},
    {"T[...] -> U[...]", "S-009", false}, {"image: uint8[n,c]@HC -> T", "S-009", false},
    {"T[n] -> T[?]", "", true},           {"T[n] -> ?[...?], T[<=n]", "", true},
    {"T[n -> T[n]", "S-004", false},      {"", "S-003", false},
    {"T[?] -> T[3]", "S-010", false},     {"T[n] -> T[n], bool[k]", "S-017", false},
};

class Builder {
 public:
  Builder(const uint8_t *data, size_t size) : data_(data), end_(data + size) {}

  const std::set<std::string> &faults() const { return faults_; }
  const opabi_kernel *Kernel();
  const opabi_library *Library();

 private:
  uint8_t Next() { return data_ < end_ ? *data_++ : 0; }
  bool Chance() { return Next() % 2; }
  uint64_t Word() {
    uint64_t word = 0;
    for (int i = 0; i < 8; i++) word = word << 8 | Next();
    return word;
  }
  bool Fault(const char *rule) {
    if (Next() < 250) return false;
    faults_.insert(std::string("OPABI-") + rule);
    return true;
  }

  /// A copy that ends where its memory does.
  char *Store(const void *bytes, size_t n) {
    memory_.emplace_back(new char[n]);
    if (n) std::memcpy(memory_.back().get(), bytes, n);
    return memory_.back().get();
  }
  template <typename T>
  const T *StoreAll(const std::vector<T> &items) {
    return reinterpret_cast<const T *>(Store(items.data(), items.size() * sizeof(T)));
  }
  const char *Text(const std::string &text) { return Store(text.c_str(), text.size() + 1); }
  const char *Endless(size_t limit) {
    std::string text(limit + 1, 'x');
    return Store(text.data(), text.size());
  }

  const char *Name(const char *rule, const char *stem);
  const char *Doc(size_t limit);
  template <typename Descriptor>
  bool Head(Descriptor *descriptor, size_t minimum);
  template <typename Descriptor>
  const Descriptor *Finish(const Descriptor &descriptor, bool readable);
  void Functions(opabi_kernel *kernel, bool open);
  void Arguments(opabi_kernel *kernel);
  opabi_arg Argument();
  const opabi_tensor *Default(opabi_arg *arg);

  const uint8_t *data_, *end_;
  std::set<std::string> faults_;
  std::vector<std::unique_ptr<char[]>> memory_;
  int n_names_ = 0;
};

const char *Builder::Name(const char *rule, const char *stem) {
  if (!Fault(rule)) return Text(stem + std::to_string(n_names_++));
  switch (Next() % 4) {
    case 0: return nullptr;
    case 1: return Endless(255);
    case 2: return Text("");
    default: return Text(std::string("a") + static_cast<char>(1 + Next() % 47));  // up to "/"
  }
}

const char *Builder::Doc(size_t limit) {
  if (Fault("D-014")) return Next() % 32 ? Text("ab\xC3") : Endless(limit);
  return Chance() ? Text("d\xC3\xA9j\xC3\xA0") : nullptr;
}

/// Whether more than the head, and the name by it, may be read.
template <typename Descriptor>
bool Builder::Head(Descriptor *descriptor, size_t minimum) {
  bool readable = true;
  descriptor->magic = OPABI_MAGIC;
  descriptor->abi_min = OPABI_VERSION(1, 0);
  descriptor->struct_size = static_cast<uint32_t>(minimum + 8 * (Next() % 4));
  if (Fault("D-002")) {
    descriptor->magic ^= UINT64_C(1) << Next() % 64;
    readable = false;
  }
  if (Fault("D-003")) {
    uint32_t below = Next() % static_cast<uint32_t>(minimum);
    descriptor->struct_size = Chance() ? below : descriptor->struct_size + 1 + Next() % 7;
    readable = false;
  }
  if (Fault("D-004")) {
    bool minor = Chance();
    descriptor->abi_min = minor ? OPABI_VERSION(1, 1 + Next()) : OPABI_VERSION(2 + Next(), Next());
    readable = readable && minor;
  }
  return readable;
}

template <typename Descriptor>
const Descriptor *Builder::Finish(const Descriptor &descriptor, bool readable) {
  constexpr size_t kHead = 16;
  std::vector<char> bytes(sizeof descriptor + 64, '\xFF');
  std::memcpy(bytes.data(), &descriptor, readable ? sizeof descriptor : kHead);
  size_t size = readable ? std::min<size_t>(descriptor.struct_size, bytes.size()) : kHead;
  return reinterpret_cast<const Descriptor *>(Store(bytes.data(), size));
}

void Builder::Functions(opabi_kernel *kernel, bool open) {
  kernel->run = Run;
  if (Chance()) kernel->specialize = Specialize;
  if (Fault("D-007")) kernel->run = nullptr, kernel->specialize = nullptr;
  kernel->setup = open || Chance() ? Setup : nullptr;
  if (open && Fault("D-008")) kernel->setup = nullptr, kernel->specialize = nullptr;
  if (!kernel->run && !kernel->specialize) faults_.insert("OPABI-D-007");
  if (Chance()) kernel->create = Create, kernel->destroy = Destroy;
  const bool whole = kernel->struct_size >= sizeof *kernel;  // a shorter one has no save
  if (whole && kernel->create && Chance()) kernel->save = Keep, kernel->restore = Keep;
  if (whole && Fault("D-017")) {
    kernel->save = Keep;
    kernel->restore = kernel->create ? nullptr : Keep;
  }
  if (Fault("D-012")) kernel->create = nullptr, kernel->destroy = Destroy;
  if (!kernel->create && kernel->save) faults_.insert("OPABI-D-017");
}

const opabi_tensor *Builder::Default(opabi_arg *arg) {
  opabi_tensor tensor{};
  tensor.device_type = OPABI_CPU;
  tensor.dtype = arg->dtype == OPABI_DTYPE_ANY ? kDtypes[Next() % 12] : arg->dtype;
  tensor.ndim = arg->ndim == OPABI_NDIM_ANY ? Next() % 16 : arg->ndim;
  std::vector<int64_t> shape(static_cast<size_t>(tensor.ndim)), strides(shape.size());
  int64_t elements = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    shape[d] = Next() % 3;
    strides[d] = elements;
    elements *= shape[d];
  }
  bool full = elements > 0;
  tensor.data = reinterpret_cast<void *>(full ? UINT64_C(64) : Word());  // nobody may follow it
  if (Fault("D-018")) {
    int kind = Next() % 7;
    if (kind < 2 && !shape.empty()) {
      shape[Next() % shape.size()] = kind ? -1 - Next() : INT64_MAX >> Next() % 16;
    } else if (kind == 2 && full) {
      tensor.data = nullptr;
    } else if (kind == 3) {
      tensor.dtype ^= 1u << (16 + Next() % 16);
    } else if (kind == 4) {
      tensor.byte_offset = 1 + Next();
    } else {
      tensor.ndim = kind == 5 ? 16 + Next() : -1 - Next();
    }
    if (kind == 2 && !full) tensor.device_type = OPABI_CUDA;
    if (kind < 2 && shape.empty()) tensor.device_type = 0;
  }
  tensor.shape = StoreAll(shape);
  tensor.strides = StoreAll(strides);
  return StoreAll(std::vector<opabi_tensor>{tensor});
}

opabi_arg Builder::Argument() {
  opabi_arg arg{};
  arg.name = Name("D-010", "arg");
  arg.doc = Doc(1 << 20);
  arg.dtype = Chance() ? kDtypes[Next() % 12] : uint32_t{OPABI_DTYPE_ANY};
  arg.ndim = Chance() ? Next() % 16 : OPABI_NDIM_ANY;
  if (Chance()) arg.default_value = Default(&arg);
  if (Fault("D-010")) {
    switch (Next() % 3) {
      case 0: arg.dtype = OPABI_DTYPE_UNSET - Next(); break;
      case 1: arg.ndim = Chance() ? 16 + Next() : -2 - Next(); break;
      default: arg.reserved = 1 + Next();
    }
  }
  return arg;
}

void Builder::Arguments(opabi_kernel *kernel) {
  std::vector<opabi_arg> args(Next() % 5);
  for (opabi_arg &arg : args) arg = Argument();
  if (args.size() > 1 && Fault("D-010")) args.back().name = args.front().name;
  kernel->n_args = static_cast<int32_t>(args.size());
  kernel->args = StoreAll(args);
  if (!Fault("D-010")) return;
  kernel->n_args = Chance() ? -1 - Next() : 65 + Next() * 65536;
  if (!Chance()) return;
  kernel->n_args = 1;
  kernel->args = nullptr;
}

const opabi_kernel *Builder::Kernel() {
  opabi_kernel kernel{};
  bool readable = Head(&kernel, OPABI_KERNEL_SIZE_MIN);
  const Written &signature = kSignatures[Next() % std::size(kSignatures)];
  if (*signature.rule) faults_.insert(std::string("OPABI-") + signature.rule);
  kernel.name = Name("D-006", "kernel");
  kernel.doc = Doc(1 << 20);
  kernel.signature = Text(signature.text);
  kernel.traits = static_cast<uint32_t>(Word());
  kernel.critical = Next() % 4;
  kernel.device_type = Chance() ? OPABI_CUDA : OPABI_CPU;
  if (kernel.device_type == OPABI_CUDA && Chance()) kernel.critical |= OPABI_DEVICE_TABLES;
  if (Fault("D-005")) kernel.critical |= 1u << (3 + Next() % 29);
  if (Fault("D-009")) kernel.signature = nullptr;
  if (kernel.signature && Fault("D-014"))
    kernel.signature = Chance() ? Text("T\xFF") : Endless(16384);
  Functions(&kernel, signature.open);
  Arguments(&kernel);
  if (Fault("D-015")) {
    kernel.device_type = OPABI_CPU;
    kernel.critical |= OPABI_DEVICE_TABLES;
  }
  if (Fault("D-011")) {
    kernel.device_type = 3 + Next();
    if (kernel.critical & OPABI_DEVICE_TABLES) faults_.insert("OPABI-D-015");
  }
  return Finish(kernel, readable);
}

const opabi_library *Builder::Library() {
  opabi_library library{};
  bool readable = Head(&library, OPABI_LIBRARY_SIZE_1_0);
  library.name = Name("D-006", "library");
  library.version = Doc(255);
  library.doc = Doc(1 << 20);
  std::vector<const opabi_kernel *> kernels(Next() % 4);
  for (const opabi_kernel *&kernel : kernels) kernel = Kernel();
  if (kernels.size() > 1 && Fault("D-006")) kernels.back() = kernels.front();
  if (!kernels.empty() && Fault("D-013")) kernels[Next() % kernels.size()] = nullptr;
  library.n_kernels = static_cast<int64_t>(kernels.size());
  library.kernels = StoreAll(kernels);
  if (Fault("D-013"))
    library.n_kernels = Chance() ? -1 - Next() : 65537 + static_cast<int64_t>(Word() >> 1) / 2;
  return Finish(library, readable);
}

/// `check` throws the first fault of `broken`, if there is one; only faults that were made are
/// named.
template <typename Check>
void Verify(const std::vector<Broken> &broken, const std::set<std::string> &faults, Check &&check) {
  for (const Broken &one : broken) REQUIRE_THAT(faults.count(one.rule));
  REQUIRE_THAT(faults.empty() == broken.empty());
  try {
    check();
    REQUIRE_THAT(broken.empty());
  } catch (const Error &error) {
    const std::string what = error.what();
    REQUIRE_THAT(!broken.empty());
    REQUIRE_THAT(error.rule() == broken[0].rule && error.message() == broken[0].message);
    REQUIRE_THAT(CleanMessage(what.data(), static_cast<int64_t>(what.size())) == what);
  }
}

}  // namespace
}  // namespace opabi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace opabi;
  Builder builder(data, size);
  if (size % 4) {
    const opabi_kernel *kernel = builder.Kernel();
    Verify(AllBroken(kernel), builder.faults(), [&] { CheckKernel(kernel); });
  } else {
    const opabi_library *library = builder.Library();
    Verify(AllBroken(library, "libx.so"), builder.faults(),
           [&] { CheckLibrary(library, "libx.so"); });
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::mt19937 random(seed);
  if (size == 0 || random() % 8 == 0) {
    size = std::min<size_t>(max_size, random() % 400);
    for (size_t i = 0; i < size; i++) data[i] = static_cast<uint8_t>(random());
    return size;
  }
  for (size_t i = random() % 8; i > 0; i--) {
    data[random() % size] = static_cast<uint8_t>(random() % 4 ? random() : 250 + random() % 6);
  }
  return random() % 8 ? size : random() % size;
}
