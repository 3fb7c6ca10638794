// SPDX-License-Identifier: Apache-2.0
#include "allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> allocations{0};
}

int64_t opabi::Allocations() { return allocations; }

// The forms for arrays and without exceptions end in these.
void *operator new(size_t bytes) {
  allocations++;
  if (void *memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
