// SPDX-License-Identifier: Apache-2.0
// A whole batch in one launch, for CUDA kernels; no part of the ABI. On the device:
//
//   extern "C" __global__ void invert(OPABI_BATCH(batch)) {
//     opabi::transform<unsigned char, unsigned char>(batch, [](unsigned char x) { return 255 - x; });
//   }
//
// and where samples are more than their elements:
//
//   opabi::for_each(batch, [](const opabi::sample &s, long long i) {
//     s.out<float>(0)[i] = s.arg<float>(0) * s.in<float>(0)[i];
//   });
//
// The batch comes by value, with a table of pointers, extents and rank-0 arguments for each sample that has
// elements; a table that does not fit lies in device memory. NVRTC compiles this file without any other header.
// On the host, for kernels that launch themselves: opabi::prepare in setup, opabi::pack in run.
#ifndef OPABI_OPABI_CUH_
#define OPABI_OPABI_CUH_

#ifndef __CUDACC_RTC__
#include <string.h>

#include "opabi/opabi.h"
#endif

#ifdef __CUDACC__
#define OPABI_DEVICE __device__ __forceinline__
#else
#define OPABI_DEVICE inline
#endif

/// A kernel's one parameter. It is read where it lies: without __grid_constant__ each thread would copy it.
#define OPABI_BATCH(name) const __grid_constant__ opabi::batch name

/// Words of the table that go by value. Kernel parameters hold 4 KB (define it as 504 there), since CUDA 12.1
/// 32 KB; all units of a program must agree.
#ifndef OPABI_BATCH_WORDS
#define OPABI_BATCH_WORDS 1016
#endif

namespace opabi {

typedef long long word;

struct batch;

/// One sample, as the kernel sees it. Ports count from 0.
struct sample {
  const batch &b;
  int row;

  OPABI_DEVICE word index() const;  // in the batch
  template <typename T>
  OPABI_DEVICE const T *in(int port) const;
  template <typename T>
  OPABI_DEVICE T *out(int port) const;
  OPABI_DEVICE word in_extent(int port, int d) const;
  OPABI_DEVICE word out_extent(int port, int d) const;
  template <typename T>
  OPABI_DEVICE T arg(int a) const;  // of rank 0
  template <typename T>
  OPABI_DEVICE const T *arg_data(int a) const;  // of a higher rank
  OPABI_DEVICE word arg_extent(int a, int d) const;
  OPABI_DEVICE word
  extent() const;  // what the grid is made for: by default output 0's number of elements
};

/// What one block does: the part [begin, end) of a sample's extent.
struct part {
  int row;
  word begin, end;
};

struct batch {
  int n_samples, n_rows;  // rows: samples with elements
  int per_block;          // of a sample's extent
  int by_total;           // blocks are counted over all rows; else blockIdx.y is the row
  int n_in, n_out, n_args;
  int row_words;
  unsigned blocks_x, blocks_y;
  int head_words;  // of the table: the column of each port, four a word
  int reserved;
  const word *table;  // NULL: words
  word unused;
  word words[OPABI_BATCH_WORDS];

  OPABI_DEVICE word at(int i) const { return table ? table[i] : words[i]; }
  OPABI_DEVICE int column(int port) const {
    return static_cast<int>(at(port >> 2) >> ((port & 3) * 16) & 0xFFFF);
  }
  OPABI_DEVICE word cell(int row, int column) const {
    return at(head_words + row * row_words + column);
  }
#ifdef __CUDACC__
  OPABI_DEVICE part mine() const;
#endif
};

enum { kRowIndex = 0, kRowFirstBlock = 1, kRowExtent = 2, kRowPorts = 3 };

OPABI_DEVICE word sample::index() const { return b.cell(row, kRowIndex); }
OPABI_DEVICE word sample::extent() const { return b.cell(row, kRowExtent); }
template <typename T>
OPABI_DEVICE const T *sample::in(int port) const {
  return reinterpret_cast<const T *>(b.cell(row, b.column(port)));
}
template <typename T>
OPABI_DEVICE T *sample::out(int port) const {
  return reinterpret_cast<T *>(b.cell(row, b.column(b.n_in + port)));
}
OPABI_DEVICE word sample::in_extent(int port, int d) const {
  return b.cell(row, b.column(port) + 1 + d);
}
OPABI_DEVICE word sample::out_extent(int port, int d) const {
  return b.cell(row, b.column(b.n_in + port) + 1 + d);
}
template <typename T>
OPABI_DEVICE T sample::arg(int a) const {
  const word bits = b.cell(row, b.column(b.n_in + b.n_out + a));
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <typename T>
OPABI_DEVICE const T *sample::arg_data(int a) const {
  return reinterpret_cast<const T *>(b.cell(row, b.column(b.n_in + b.n_out + a)));
}
OPABI_DEVICE word sample::arg_extent(int a, int d) const {
  return b.cell(row, b.column(b.n_in + b.n_out + a) + 1 + d);
}

#ifdef __CUDACC__

OPABI_DEVICE part batch::mine() const {
  int row = static_cast<int>(blockIdx.y);
  word block = blockIdx.x;
  if (by_total) {  // the last row whose first block is not after this one
    int low = 0, high = n_rows - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (cell(middle, kRowFirstBlock) <= block) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    row = low;
    block -= cell(row, kRowFirstBlock);
  }
  const word n = cell(row, kRowExtent), begin = block * per_block;
  return {row, begin < n ? begin : n, begin + per_block < n ? begin + per_block : n};
}

/// f(sample, i) for each i of every sample's extent, one thread each.
template <typename F>
OPABI_DEVICE void for_each(const batch &b, F f) {
  const part p = b.mine();
  const sample s{b, p.row};
  for (word i = p.begin + threadIdx.x; i < p.end; i += blockDim.x) f(s, i);
}

/// Words of 1 to 16 bytes, read and written by one instruction.
template <int bytes>
struct raw_of;
template <>
struct raw_of<1> {
  typedef unsigned char type;
};
template <>
struct raw_of<2> {
  typedef unsigned short type;
};
template <>
struct raw_of<4> {
  typedef unsigned int type;
};
template <>
struct raw_of<8> {
  typedef uint2 type;
};
template <>
struct raw_of<16> {
  typedef uint4 type;
};

template <int V, typename T>
OPABI_DEVICE bool is_aligned(const T *pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % (sizeof(T) * V) == 0;
}

/// The size of the largest of these types.
template <typename T, typename... Rest>
struct largest {
  static constexpr int rest = largest<Rest...>::size;
  static constexpr int size =
      static_cast<int>(sizeof(T)) > rest ? static_cast<int>(sizeof(T)) : rest;
};
template <typename T>
struct largest<T> {
  static constexpr int size = sizeof(T);
};

/// Vectors that one thread loads before it stores any.
#ifndef OPABI_TRANSFORM_UNROLL
#define OPABI_TRANSFORM_UNROLL 4
#endif
constexpr int kTransformUnroll = OPABI_TRANSFORM_UNROLL;

/// V elements of T as they lie in memory, for each step of the unrolled loop.
template <int V, typename T>
struct vectors {
  typedef typename raw_of<V * sizeof(T)>::type raw;
  const T *from;
  raw at[kTransformUnroll];

  OPABI_DEVICE void load(int u, word v, bool aligned) {
    if (aligned) {
      at[u] = __ldg(reinterpret_cast<const raw *>(from) + v);  // inputs are read-only for the call
      return;
    }
    T elements[V];
#pragma unroll
    for (int k = 0; k < V; k++) elements[k] = from[v * V + k];
    memcpy(&at[u], elements, sizeof elements);
  }
  OPABI_DEVICE T element(int u, int k) const {
    T elements[V];
    memcpy(elements, &at[u], sizeof elements);
    return elements[k];
  }
};

/// The vectors of one block: all loads of a step come before its first store.
template <int V, typename Out, typename F, typename... In>
OPABI_DEVICE void transform_vectors(word n, F f, Out *out, bool aligned, vectors<V, In>... in) {
  typedef typename raw_of<V * sizeof(Out)>::type raw;
  const int threads = blockDim.x;
  for (word first = threadIdx.x; first < n;
       first += static_cast<word>(threads) * kTransformUnroll) {
#pragma unroll
    for (int u = 0; u < kTransformUnroll; u++) {
      const word v = first + static_cast<word>(u) * threads;
      if (v < n) (in.load(u, v, aligned), ...);
    }
#pragma unroll
    for (int u = 0; u < kTransformUnroll; u++) {
      const word v = first + static_cast<word>(u) * threads;
      if (v >= n) continue;
      Out results[V];
#pragma unroll
      for (int k = 0; k < V; k++) results[k] = static_cast<Out>(f(in.element(u, k)...));
      raw packed;
      memcpy(&packed, results, sizeof packed);
      reinterpret_cast<raw *>(out)[v] = packed;
    }
  }
}

/// out[i] = f(in0[i], in1[i], ...) at [begin, end) of one sample. Samples lie at any address: the first elements
/// are peeled off until the output is aligned, and inputs that are not aligned there are read one by one.
template <typename Out, typename F, typename... In>
OPABI_DEVICE void transform_part(const part &p, word n, F f, Out *out, const In *...in) {
  constexpr int V = 16 / largest<Out, In...>::size;
  const word misaligned =
      static_cast<word>(reinterpret_cast<unsigned long long>(out) / sizeof(Out) % V);
  const word head = misaligned ? V - misaligned : 0;
  const word begin = p.begin + head, limit = p.end + head, end = limit < n ? limit : n;
  const int thread = threadIdx.x;
  if (p.begin == 0 && thread < head && thread < n) out[thread] = static_cast<Out>(f(in[thread]...));
  if (begin >= end) return;
  const word n_vectors = (end - begin) / V;
  if ((is_aligned<V>(in + begin) && ...)) {
    transform_vectors<V>(n_vectors, f, out + begin, true, vectors<V, In>{in + begin, {}}...);
  } else {
    transform_vectors<V>(n_vectors, f, out + begin, false, vectors<V, In>{in + begin, {}}...);
  }
  const word tail = begin + n_vectors * V + thread;
  if (tail < end) out[tail] = static_cast<Out>(f(in[tail]...));
}

/// out[i] = f(in0[i], ...) for all elements of all samples: output 0 from the leading inputs, which have as many
/// elements. Launch it over the number of elements.
template <typename Out, typename In0, typename F>
OPABI_DEVICE void transform(const batch &b, F f) {
  const part p = b.mine();
  const sample s{b, p.row};
  transform_part<Out>(p, s.extent(), f, s.out<Out>(0), s.in<In0>(0));
}
template <typename Out, typename In0, typename In1, typename F>
OPABI_DEVICE void transform(const batch &b, F f) {
  const part p = b.mine();
  const sample s{b, p.row};
  transform_part<Out>(p, s.extent(), f, s.out<Out>(0), s.in<In0>(0), s.in<In1>(1));
}

#endif  // __CUDACC__

// ---- The host's side ------------------------------------------------------------------------------

#ifndef __CUDACC_RTC__

namespace detail {

inline int64_t aligned(int64_t bytes) { return (bytes + 15) / 16 * 16; }
inline int64_t item_size(const opabi_tensor &t) { return (t.dtype >> 8 & 0xFF) / 8; }
inline int64_t bytes_of(const opabi_tensor &t) { return aligned(opabi_numel(&t) * item_size(t)); }
inline bool is_staged(const opabi_tensor &t, bool argument) {
  return argument ? t.ndim > 0 : t.device_type == OPABI_CPU;
}

/// The columns of a table for these ports, and its sizes in words.
struct columns {
  int column[3 * OPABI_MAX_PORTS];
  int n = 0, row = kRowPorts;
  void add(int32_t ndim) {
    column[n++] = row;
    row += 1 + ndim;
  }
  int head() const { return (n + 3) / 4; }
  int64_t words(int64_t rows) const { return head() + rows * row; }
};

/// Bytes of data in host memory that the device needs.
inline int64_t staged_data(const opabi_tensor *inputs, const opabi_tensor *args, int64_t n_inputs,
                           int64_t n_args) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < n_inputs; i++)
    bytes += is_staged(inputs[i], false) ? bytes_of(inputs[i]) : 0;
  for (int64_t i = 0; i < n_args; i++) bytes += is_staged(args[i], true) ? bytes_of(args[i]) : 0;
  return bytes;
}

}  // namespace detail

/// Bytes of host and of device scratch that pack needs for a batch; 0 where the table goes by value.
inline int64_t pack_bytes(const detail::columns &columns, int64_t n_samples,
                          const opabi_tensor *inputs, int64_t n_in, const opabi_tensor *args,
                          int64_t n_args, int64_t capacity_words) {
  const int64_t words = columns.words(n_samples);
  const int64_t data = detail::staged_data(inputs, args, n_samples * n_in, n_samples * n_args);
  return words <= capacity_words && data == 0 ? 0 : detail::aligned(words * 8) + data;
}

inline int64_t pack_bytes(const opabi_setup *setup, int64_t capacity_words = OPABI_BATCH_WORDS) {
  detail::columns columns;
  for (int p = 0; p < setup->n_in; p++) columns.add(setup->inputs[p].ndim);
  for (int p = 0; p < setup->n_out; p++) columns.add(setup->out_ndim[p]);
  for (int a = 0; a < setup->n_args; a++) columns.add(setup->args[a].ndim);
  return pack_bytes(columns, setup->n_samples, setup->inputs, setup->n_in, setup->args,
                    setup->n_args, capacity_words);
}

/// The scratch that so many bytes are staged in: CUDA takes small copies from memory that is not pinned along with
/// its commands, and gives the memory back at once.
inline int staging(int64_t bytes) {
  return bytes <= 65536 ? OPABI_SCRATCH_HOST : OPABI_SCRATCH_PINNED;
}

/// Writes the batch's table. `extent(s)` is what sample s's blocks are made for; samples where it is 0 get no row.
/// Sets *staged to the memory from which the number of bytes that it gives must be copied to device scratch before the
/// launch; they are 0 where the table goes by value, and -1 where setup has not asked for the scratch. `capacity_words`
/// as in setup.
template <typename Extent>
inline int64_t pack(const opabi_call *call, Extent extent, int per_block, bool by_total,
                    int64_t capacity_words, batch *b, const void **staged) {
  detail::columns columns;
  for (int p = 0; p < call->n_in; p++) columns.add(call->inputs[p].ndim);
  for (int p = 0; p < call->n_out; p++) columns.add(call->outputs[p].ndim);
  for (int a = 0; a < call->n_args; a++) columns.add(call->args[a].ndim);
  const int64_t needed = pack_bytes(columns, call->n_samples, call->inputs, call->n_in, call->args,
                                    call->n_args, capacity_words);
  char *host = needed ? static_cast<char *>(call->scratch[staging(needed)]) : nullptr;
  char *device = needed ? static_cast<char *>(call->scratch[OPABI_SCRATCH_DEVICE]) : nullptr;
  *staged = host;
  if (needed && !(host && device)) return -1;
  b->n_samples = static_cast<int>(call->n_samples);
  b->n_rows = 0;
  b->per_block = per_block;
  b->by_total = by_total;
  b->n_in = call->n_in;
  b->n_out = call->n_out;
  b->n_args = call->n_args;
  b->row_words = columns.row;
  b->head_words = columns.head();
  word *table = host ? reinterpret_cast<word *>(host) : b->words;
  for (int i = 0; i < b->head_words; i++) table[i] = 0;
  for (int p = 0; p < columns.n; p++)
    table[p >> 2] |= static_cast<word>(columns.column[p]) << ((p & 3) * 16);
  int64_t next = detail::aligned(columns.words(call->n_samples) * 8);
  word *row = table + b->head_words;
  word total = 0, most = 0;
  for (int64_t s = 0; s < call->n_samples; s++) {
    const word n = extent(s);
    if (n <= 0) continue;
    const word blocks = (n + per_block - 1) / per_block;
    row[kRowIndex] = s;
    row[kRowFirstBlock] = total;
    row[kRowExtent] = n;
    total += blocks;
    most = blocks > most ? blocks : most;
    word *cell = row + kRowPorts;
    const auto put = [&](const opabi_tensor &t, bool is_on_host) {
      *cell = reinterpret_cast<word>(t.data);
      if (is_on_host) {
        const int64_t bytes = opabi_numel(&t) * detail::item_size(t);
        if (bytes) memcpy(host + next, t.data, static_cast<size_t>(bytes));
        *cell = reinterpret_cast<word>(device + next);
        next += detail::aligned(bytes);
      }
      cell++;
      for (int32_t d = 0; d < t.ndim; d++) *cell++ = t.shape[d];
    };
    for (int p = 0; p < call->n_in; p++) {
      const opabi_tensor &t = call->inputs[s * call->n_in + p];
      put(t, detail::is_staged(t, false));
    }
    for (int p = 0; p < call->n_out; p++) put(call->outputs[s * call->n_out + p], false);
    for (int a = 0; a < call->n_args; a++) {
      const opabi_tensor &t = call->args[s * call->n_args + a];
      if (t.ndim > 0) {
        put(t, true);
      } else {
        *cell = 0;
        memcpy(cell++, t.data, static_cast<size_t>(detail::item_size(t)));
      }
    }
    row += columns.row;
    b->n_rows++;
  }
  b->blocks_x = static_cast<unsigned>(by_total ? total : most);
  b->blocks_y = static_cast<unsigned>(by_total ? 1 : b->n_rows);
  b->table = reinterpret_cast<const word *>(device);
  return host ? next : 0;
}

/// Setup's part, of kernels that launch themselves: asks for the scratch that pack needs, at the front of each. Such a
/// kernel declares OPABI_WHOLE_BATCH.
inline void prepare(const opabi_setup *setup) {
  const int64_t bytes = pack_bytes(setup);
  setup->scratch_bytes[staging(bytes)] += bytes;
  setup->scratch_bytes[OPABI_SCRATCH_DEVICE] += bytes;
}

#if defined(__CUDACC__)

/// Run's part: the batch for a launch of grid(b) blocks over the elements of output 0, each of which does
/// `per_block` of them. With cudaSuccess and b->n_rows == 0 there is nothing to launch.
inline cudaError_t pack(const opabi_call *call, int per_block, batch *b) {
  const void *staged;
  const auto extent = [call](int64_t s) {
    return opabi_numel(call->n_out ? &call->outputs[s * call->n_out]
                                   : &call->inputs[s * call->n_in]);
  };
  const bool by_total = call->n_samples > 65535;
  const int64_t bytes = pack(call, extent, per_block, by_total, OPABI_BATCH_WORDS, b, &staged);
  if (bytes < 0) return cudaErrorMemoryAllocation;
  if (!bytes || !b->n_rows) return cudaSuccess;
  return cudaMemcpyAsync(call->scratch[OPABI_SCRATCH_DEVICE], staged, static_cast<size_t>(bytes),
                         cudaMemcpyHostToDevice, static_cast<cudaStream_t>(call->stream));
}

inline dim3 grid(const batch &b) { return dim3(b.blocks_x, b.blocks_y, 1); }

/// The status for a CUDA call's result, with CUDA's text: return opabi::status(call, cudaGetLastError());
inline int32_t status(const opabi_call *call, cudaError_t result) {
  if (result == cudaSuccess) return OPABI_OK;
  if (call->err_where) call->err_where[OPABI_WHERE_NATIVE] = result;
  return opabi_fail(call->err, call->err_cap, nullptr, 0, OPABI_ERROR_DEVICE,
                    cudaGetErrorString(result));
}

#endif  // __CUDACC__
#endif  // __CUDACC_RTC__

}  // namespace opabi

#endif  // OPABI_OPABI_CUH_
