// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target where libFuzzer is not at hand. The target brings its own mutator.
//
//   fuzz_x [COUNT [SEED]]   runs COUNT inputs (default 1000000); equal seeds give equal inputs
//   fuzz_x FILE...          runs these inputs
//
// An input that ends the process is written to the file "crash" first.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned int seed);

namespace {

constexpr size_t kMaxSize = 20000;
using Input = std::vector<uint8_t>;
const Input *current;

void SaveCurrent() {
  std::ofstream("crash", std::ios::binary)
      .write(reinterpret_cast<const char *>(current->data()),
             static_cast<std::streamsize>(current->size()));
  std::fprintf(stderr, "The input that did it is in the file \"crash\".\n");
}

void SaveAndDie(int signal) {
  SaveCurrent();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// The input lies in memory of just its size, so that a read past it is seen.
void RunOne(const Input &input) {
  const Input exact(input);
  current = &exact;
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

int RunFiles(int n, char **paths) {
  for (int i = 0; i < n; i++) {
    std::ifstream file(paths[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: cannot be read\n", paths[i]);
      return 1;
    }
    RunOne(Input(std::istreambuf_iterator<char>(file), {}));
  }
  return 0;
}

void RunMutations(long count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Input> pool(64);
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < count; i++) {
    Input input = pool[random() % pool.size()];
    const size_t size = input.size();
    input.resize(kMaxSize);
    input.resize(
        LLVMFuzzerCustomMutator(input.data(), size, kMaxSize, static_cast<unsigned>(random())));
    RunOne(input);
    pool[random() % pool.size()] = std::move(input);
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  std::printf("%ld inputs in %.1f s, seed %u\n", count, time.count(), seed);
}

}  // namespace

int main(int argc, char **argv) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(SaveCurrent);
#endif
  std::signal(SIGABRT, SaveAndDie);
  std::signal(SIGSEGV, SaveAndDie);
  char *end = nullptr;
  const long count = argc > 1 ? std::strtol(argv[1], &end, 10) : 1000000;
  if (end && *end) return RunFiles(argc - 1, argv + 1);
  RunMutations(count, argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : 1);
}
