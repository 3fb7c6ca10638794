/* SPDX-License-Identifier: Apache-2.0
 *
 * opabi 1.0: a C ABI for data-processing kernels called through function pointers.
 *
 * This header is the authority. spec/opabi.md explains it and quotes it; where the two differ, this
 * file holds. Ids such as OPABI-K-020 name the rules of the standard (spec/rules.toml): D for
 * descriptors, K for what a kernel owes, H for what a host owes, S for signatures.
 *
 * A *kernel* turns the input tensors of some samples into their output tensors. A *host* finds the
 * kernel through its descriptor, allocates the outputs and calls it. Neither links to the other, and
 * there is no library to link: this file has types, constants and a few inline helpers.
 *
 * The order of life, for one kernel in one host:
 *
 *   load -> create -> { specialize -> setup -> run }... -> destroy -> release
 *
 *   load        the host reads the descriptor and checks every rule of kind D
 *   create      one instance for an operator          (only kernels with state of their own)
 *   specialize  once per combination of dtypes/ranks  (only kernels that compile or pick variants)
 *   setup       the outputs' shapes for a range of samples (only kernels that have one)
 *   run         compute the outputs for a range of samples
 *   destroy     the end of an instance
 *   release     the end of the descriptor's owner; nothing is called afterwards
 *
 * Words in brackets before a function say who may call it, and when:
 *   [any thread]    any thread of the host; for one instance never while another call runs
 *   [concurrent]    any thread, also several at once, on distinct samples; for a kernel with
 *                   `create` one at a time per instance, unless it declares OPABI_REENTRANT
 *   [once]          exactly once in the life of what it ends
 * A kernel without `create` has no instance: its setup and run may overlap in any way, also between
 * operators (OPABI-K-030).
 *
 * The platform: 64-bit, little-endian, the platform's C calling convention. All fields are
 * fixed-width integers or pointers, all padding is explicit, every struct is a multiple of 8 bytes.
 * Rationale: enums, bool, long and size_t differ between compilers and languages; these do not.
 *
 * Strings are UTF-8, NUL-terminated, and never NULL unless it says so. An array of no elements may
 * be NULL; any other is not, unless it says so.
 *
 * Growth: structs that begin with struct_size grow at their end only. "Absent" means that
 * struct_size does not reach a field; absent, zero and NULL all mean the behaviour of ABI 1.0. A
 * reader never rejects a struct for being larger than it knows (OPABI-H-001, OPABI-K-032).
 * opabi_tensor and opabi_arg have no size and never change within major version 1.
 */
#ifndef OPABI_OPABI_H_
#define OPABI_OPABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. A kernel states the minor it *needs* in abi_min (below), which is
 * its author's choice and 0 until a later field is used. Rationale: plugins that state the version
 * of the header they were built with are refused by every older host for no reason. */
#define OPABI_MAJOR 1
#define OPABI_MINOR 0
#define OPABI_VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

/* First field of both descriptors: the bytes "opabi", 0, 1, 0x1A read as a little-endian integer. */
#define OPABI_MAGIC UINT64_C(0x1A0100696261706F)

/* opabi:begin  From here to opabi:end there is no preprocessor line: tools read this part as is. */

/* ---- Status: what every function returns ---------------------------------------------------------
 * Success is a number that nothing returns by accident. 0 means "never reported": a Numba or cffi
 * callback that raises returns 0, a void function called as int32_t returns whatever it returns.
 * A host treats every value but OPABI_OK as a failure (OPABI-K-001, OPABI-H-007): the codes below as
 * they say, negative values as the kernel's own, any other as OPABI_ERROR_INTERNAL. */
enum {
  OPABI_OK = 0x600D,
  OPABI_ERROR_VALUE = 1,         /* the input's or argument's value, e.g. "no face" (caller) */
  OPABI_ERROR_TYPE = 2,          /* a dtype, rank or layout the kernel cannot take (caller) */
  OPABI_ERROR_INDEX = 3,         /* an index or size out of its range, e.g. a label id (caller) */
  OPABI_ERROR_UNSUPPORTED = 4,   /* legal, but not implemented by this kernel (caller) */
  OPABI_ERROR_OUT_OF_MEMORY = 5, /* the kernel could not get memory (environment) */
  OPABI_ERROR_DEVICE = 6,        /* a launch or device call failed; err_where[3] has its code */
  OPABI_ERROR_INTERNAL = 7,      /* a fault in the kernel itself, e.g. an exception (kernel) */
  OPABI_ERROR_ABI = 8            /* the struct's version or size does not serve (host or kernel) */
};

/* ---- Element types: DLPack's DLDataType as one word, code | bits << 8 | lanes << 16 --------------- */
enum {
  OPABI_DTYPE_ANY = 0,                 /* in declarations: not fixed */
  OPABI_DTYPE_UNSET = 0x7FFFFFFF,      /* sentinel in out_dtype: not set yet */
  OPABI_INT8 = 0x00010800,
  OPABI_INT16 = 0x00011000,
  OPABI_INT32 = 0x00012000,
  OPABI_INT64 = 0x00014000,
  OPABI_UINT8 = 0x00010801,
  OPABI_UINT16 = 0x00011001,
  OPABI_UINT32 = 0x00012001,
  OPABI_UINT64 = 0x00014001,
  OPABI_FLOAT16 = 0x00011002,
  OPABI_FLOAT32 = 0x00012002,
  OPABI_FLOAT64 = 0x00014002,
  OPABI_BOOL = 0x00010806              /* one byte, 0 or 1 */
};

/* ---- Devices: DLPack's DLDeviceType values -------------------------------------------------------- */
enum { OPABI_CPU = 1, OPABI_CUDA = 2 };

/* ---- Limits and indices --------------------------------------------------------------------------- */
enum {
  OPABI_MAX_NDIM = 15,    /* ranks are 0..15 */
  OPABI_MAX_PORTS = 64,   /* inputs, outputs and arguments: at most 64 each */
  OPABI_LAYOUT_SIZE = 16, /* bytes of a layout slot, its NUL included */
  OPABI_NDIM_ANY = -1,    /* in declarations: not fixed */
  OPABI_UNSET = -1,       /* sentinel in out_ndim, out_shape, out_actual, err_where */

  OPABI_SCRATCH_HOST = 0, /* indices into scratch and scratch_bytes */
  OPABI_SCRATCH_DEVICE = 1,
  OPABI_SCRATCH_PINNED = 2,

  OPABI_WHERE_INPUT = 0, /* indices into err_where */
  OPABI_WHERE_OUTPUT = 1,
  OPABI_WHERE_SAMPLE = 2, /* relative to the call: 0 .. n_samples - 1 */
  OPABI_WHERE_NATIVE = 3  /* a code of the kernel's or driver's own */
};

/* ---- Traits: claims about a kernel, each of them testable -----------------------------------------
 * `traits` are advisory: a host that does not know a bit ignores it. Unset is the safe meaning. */
enum {
  OPABI_REENTRANT = 1,     /* calls on one instance may overlap, on distinct samples */
  OPABI_PURE = 2,          /* outputs depend on inputs and arguments alone, and the call has no
                              other effect: equal calls may be merged, unused ones dropped */
  OPABI_DETERMINISTIC = 4, /* equal inputs give equal bits, whatever the split or thread */
  OPABI_ANY_STRIDES = 8,   /* takes inputs that are not contiguous; without it they are */
  OPABI_CAPTURE_SAFE = 16, /* run may be captured into a CUDA graph and replayed */
  OPABI_TAKES_GIL = 32,    /* calls take Python's global lock: a host must not hold a lock that a
                              Python thread may wait for, and gains nothing from threads */
  OPABI_SYNCS_STREAM = 64  /* run may wait for its stream on the host */
};
/* `critical` traits change what the host must do: an unknown bit is refused (OPABI-D-005). */
enum {
  OPABI_WHOLE_BATCH = 1,      /* run and setup get all samples of a batch in one call */
  OPABI_SETUP_READS_DATA = 2, /* setup reads input data, which is complete then, on CUDA too
                                 (OPABI-H-031); without it, data may be unreadable there */
  OPABI_DEVICE_TABLES = 4     /* the CUDA kernel needs device_inputs, device_outputs, device_args */
};

/* ---- A tensor: DLTensor's 48 bytes with a strict profile ------------------------------------------
 * shape     ndim extents, each >= 0; NULL only if ndim is 0
 * strides   ndim strides, counted in elements; never NULL if ndim > 0 (OPABI-H-002). Contiguous in
 *           row-major order: each the product of the extents after it, whatever its own extent;
 *           unless the port is an input and the kernel declares OPABI_ANY_STRIDES
 * data      aligned to the element's size, to no more (OPABI-K-025). Where an extent is 0 it may
 *           hold any value, and is never followed (OPABI-K-024)
 * byte_offset is 0 and lanes is 1, always
 * The struct and all it points to belong to the host, and live for the call only (OPABI-K-026). */
typedef struct opabi_tensor {
  void *data;              /*  0 inputs and args: read-only (OPABI-K-021) */
  int32_t device_type;     /*  8 where data lies: OPABI_CPU or OPABI_CUDA */
  int32_t device_id;       /* 12 */
  int32_t ndim;            /* 16 */
  uint32_t dtype;          /* 20 OPABI_UINT8 ... */
  const int64_t *shape;    /* 24 */
  const int64_t *strides;  /* 32 */
  uint64_t byte_offset;    /* 40 0 */
} opabi_tensor;            /* 48 */

/* ---- A named argument's declaration ---------------------------------------------------------------
 * Arguments are tensors in host memory, also for CUDA kernels, constant or one for each sample.
 * A string is uint8 of rank 1, UTF-8 without a NUL, and converts to nothing else. The host converts
 * bool and integers to the declared float type, and a type to a wider one that holds all its values;
 * anything else it refuses by name (OPABI-H-013). An int64 argument of rank 0 named "seed" without a
 * default is fed by the host with a fresh value per sample where the caller gives none
 * (OPABI-H-026). */
typedef struct opabi_arg {
  const char *name;                  /*  0 [A-Za-z_][A-Za-z0-9_]*, unique in the kernel */
  const char *doc;                   /*  8 or NULL */
  uint32_t dtype;                    /* 16 or OPABI_DTYPE_ANY */
  int32_t ndim;                      /* 20 or OPABI_NDIM_ANY */
  const opabi_tensor *default_value; /* 24 or NULL: the argument is required */
  uint64_t reserved;                 /* 32 0 */
} opabi_arg;                         /* 40 */

/* ---- create: state for one operator ---------------------------------------------------------------
 * [any thread] Sets *out_instance, which setup and run then receive. If it fails it leaves nothing
 * behind, and destroy is not called (OPABI-K-035). */
typedef struct opabi_create {
  uint32_t struct_size;  /*  0 the host's */
  uint32_t abi;          /*  4 the host's version, OPABI_VERSION */
  void *user_data;       /*  8 the descriptor's */
  int32_t device_type;   /* 16 */
  int32_t device_id;     /* 20 */
  int64_t max_batch;     /* 24 largest batch, or 0: not known */
  int64_t n_workers;     /* 32 `worker` is below this number */
  void **out_instance;   /* 40 prefilled with NULL; NULL is a legal instance */
  char *err;             /* 48 see opabi_call */
  int64_t err_cap;       /* 56 */
  int64_t *err_where;    /* 64 */
} opabi_create;          /* 72 */

/* ---- specialize: choose or compile code for what arrives ------------------------------------------
 * [any thread; may be slow; may take Python's lock] Called once for each new combination of dtypes
 * and ranks of inputs and arguments (and device), before the first setup for it (OPABI-H-020). Sets
 * run, and optionally setup and user_data, to use with that combination. They belong to the parent
 * kernel and live until its release (OPABI-K-033). Ports, arguments, traits and instance stay the
 * parent's. */
struct opabi_setup;
struct opabi_call;
typedef int32_t (*opabi_setup_fn)(const struct opabi_setup *setup);
typedef int32_t (*opabi_run_fn)(const struct opabi_call *call);

typedef struct opabi_specialize {
  uint32_t struct_size;       /*  0 the host's */
  uint32_t abi;               /*  4 */
  void *user_data;            /*  8 the descriptor's */
  int32_t n_in;               /* 16 */
  int32_t n_args;             /* 20 */
  const uint32_t *in_dtype;   /* 24 [n_in] */
  const int32_t *in_ndim;     /* 32 [n_in] */
  const uint32_t *arg_dtype;  /* 40 [n_args] after the host's conversions */
  const int32_t *arg_ndim;    /* 48 [n_args] */
  int32_t device_type;        /* 56 */
  int32_t device_id;          /* 60 */
  opabi_run_fn *out_run;      /* 64 prefilled with the descriptor's */
  opabi_setup_fn *out_setup;  /* 72 prefilled with the descriptor's */
  void **out_user_data;       /* 80 prefilled with the descriptor's */
  char *err;                  /* 88 see opabi_call */
  int64_t err_cap;            /* 96 */
  int64_t *err_where;         /* 104 */
} opabi_specialize;           /* 112 */

/* ---- setup: the outputs' types and shapes ---------------------------------------------------------
 * [any thread] For a range of samples, before their run; perhaps on another thread. The host has
 * filled every slot that the signature determines; the others hold sentinels, and setup sets them
 * (OPABI-K-011). It changes no filled slot except layouts (OPABI-K-012). Pure: it may be called again,
 * for other ranges, or without a run after it (OPABI-K-010). The host checks all it finds before it
 * allocates anything (OPABI-H-005). */
typedef struct opabi_setup {
  uint32_t struct_size;           /*   0 the host's */
  uint32_t abi;                   /*   4 */
  void *user_data;                /*   8 the specialization's, else the descriptor's */
  void *instance;                 /*  16 from create, else NULL */
  int32_t n_in;                   /*  24 */
  int32_t n_out;                  /*  28 */
  int32_t n_args;                 /*  32 */
  int32_t max_ndim;               /*  36 row length of out_shape: OPABI_MAX_NDIM where the signature
                                         leaves a rank open, else at least the largest rank */
  int64_t n_samples;              /*  40 >= 1 */
  int64_t first_sample;           /*  48 position of sample 0 of this range in the batch */
  int64_t batch_size;             /*  56 samples in the batch */
  const opabi_tensor *inputs;     /*  64 [n_samples * n_in]: inputs[s * n_in + port] */
  const opabi_tensor *args;       /*  72 [n_samples * n_args]: args[s * n_args + a] */
  const char *const *in_layouts;  /*  80 [n_in] e.g. "HWC"; "" = none */
  uint32_t *out_dtype;            /*  88 [n_out] or OPABI_DTYPE_UNSET */
  int32_t *out_ndim;              /*  96 [n_out] or OPABI_UNSET */
  int64_t *out_shape;             /* 104 [n_samples * n_out * max_ndim]:
                                         out_shape[(s * n_out + port) * max_ndim + d] */
  char *out_layout;               /* 112 [n_out * OPABI_LAYOUT_SIZE] prefilled: the signature's, else
                                         the first one that an input of equal rank has, else "" */
  int64_t *scratch_bytes;         /* 120 [3] prefilled with 0: what one run call needs, whatever its
                                         range. A need that grows with it wants OPABI_WHOLE_BATCH */
  char *err;                      /* 128 see opabi_call */
  int64_t err_cap;                /* 136 */
  int64_t *err_where;             /* 144 */
} opabi_setup;                    /* 152 */

/* ---- run: compute a range of samples --------------------------------------------------------------
 * [concurrent] The range has 1 .. batch_size samples; how a batch is split is the host's choice, and
 * the result does not depend on it (OPABI-K-023). Every sample of a batch comes exactly once, those
 * without elements included; a batch without samples is not run (OPABI-H-012). Within a call each
 * port and argument has one dtype and one rank (OPABI-H-024).
 *
 * The kernel writes every element of every output (OPABI-K-020) and nothing else: not the inputs, not
 * the tables, not past an end (OPABI-K-022). Outputs and scratch overlap nothing else (OPABI-H-009).
 * It keeps no pointer beyond the call (OPABI-K-026), and lets nothing unwind out of it, no exception
 * and no longjmp (OPABI-K-004).
 *
 * On an error it writes a message to err, at most err_cap bytes, its NUL included, cut at a
 * character; err_cap may be 0 and err then NULL (OPABI-K-002). err_where says where (OPABI-K-003).
 *
 * Bounded extents ("<=n" in the signature): the output is allocated for the bound, the kernel writes
 * data contiguous in the *actual* shape and that shape to out_actual (OPABI-K-028). Slots of bounded
 * dimensions are prefilled with OPABI_UNSET, those of others with their extents. For CUDA kernels
 * out_actual is device memory.
 *
 * CUDA: all work is ordered on `stream`, the device is current, and OPABI_OK means enqueued
 * (OPABI-K-040). Buffers live until the stream has passed the work (OPABI-H-017). */
typedef struct opabi_call {
  uint32_t struct_size;                /*   0 the host's */
  uint32_t abi;                        /*   4 */
  void *user_data;                     /*   8 the specialization's, else the descriptor's */
  void *instance;                      /*  16 from create, else NULL */
  int32_t n_in;                        /*  24 */
  int32_t n_out;                       /*  28 */
  int32_t n_args;                      /*  32 */
  int32_t max_ndim;                    /*  36 row length of out_actual, as in setup */
  int64_t n_samples;                   /*  40 >= 1 */
  int64_t first_sample;                /*  48 position of sample 0 of this range in the batch */
  int64_t batch_size;                  /*  56 */
  const opabi_tensor *inputs;          /*  64 inputs[s * n_in + port] */
  const opabi_tensor *outputs;         /*  72 outputs[s * n_out + port] */
  const opabi_tensor *args;            /*  80 args[s * n_args + a] */
  const char *const *in_layouts;       /*  88 [n_in] */
  const char *const *out_layouts;      /*  96 [n_out] */
  int64_t *out_actual;                 /* 104 [n_samples * n_out * max_ndim], or NULL: no "<=" */
  void *const *scratch;                /* 112 [3] 256-byte aligned, uninitialised, this call's alone;
                                              NULL where no bytes were asked for (OPABI-H-015) */
  const int64_t *scratch_bytes;        /* 120 [3] at least what setup asked for */
  int32_t worker;                      /* 128 below n_workers, no two calls at a time share one */
  int32_t device_type;                 /* 132 where the kernel works */
  int32_t device_id;                   /* 136 */
  int32_t reserved;                    /* 140 0 */
  void *stream;                        /* 144 CUDA: a CUstream, never NULL. CPU: NULL */
  const opabi_tensor *device_inputs;   /* 152 with OPABI_DEVICE_TABLES inputs in device memory, every
                                              pointer a device pointer (OPABI-H-018); else NULL */
  const opabi_tensor *device_outputs;  /* 160 the same of outputs */
  const opabi_tensor *device_args;     /* 168 the same of args, their data included */
  char *err;                           /* 176 host-owned, prefilled with "" */
  int64_t err_cap;                     /* 184 bytes in err, any number >= 0 */
  int64_t *err_where;                  /* 192 [4] prefilled with OPABI_UNSET */
} opabi_call;                          /* 200 */

/* ---- save, restore: an instance's state for checkpoints -------------------------------------------
 * [any thread] save with capacity 0 sets *out_bytes; again with a buffer of that size it fills it and
 * sets *out_bytes anew, to that size or less. restore reads `capacity` bytes into an instance made
 * by create, before its first setup and run. The bytes are the kernel's own; it checks them
 * (OPABI-K-036). */
typedef struct opabi_state {
  uint32_t struct_size;  /*  0 the host's */
  uint32_t abi;          /*  4 */
  void *user_data;       /*  8 the descriptor's */
  void *instance;        /* 16 */
  void *buffer;          /* 24 restore: read-only */
  int64_t capacity;      /* 32 */
  int64_t *out_bytes;    /* 40 prefilled with 0 */
  char *err;             /* 48 see opabi_call */
  int64_t err_cap;       /* 56 */
  int64_t *err_where;    /* 64 */
} opabi_state;           /* 72 */

/* ---- The kernel's descriptor ----------------------------------------------------------------------
 * Checked in this order before anything else is read: magic, struct_size, abi_min, critical traits
 * (OPABI-D-002 to OPABI-D-005). Constant from load to release. */
typedef struct opabi_kernel {
  uint64_t magic;          /*   0 OPABI_MAGIC */
  uint32_t struct_size;    /*   8 */
  uint32_t abi_min;        /*  12 OPABI_VERSION the kernel needs */
  const char *name;        /*  16 [A-Za-z_][A-Za-z0-9_]*, unique in its library */
  const char *doc;         /*  24 or NULL */
  const char *signature;   /*  32 ports, types, shapes: spec/opabi.md section 5 */
  uint32_t traits;         /*  40 advisory */
  uint32_t critical;       /*  44 */
  int32_t device_type;     /*  48 where run works: OPABI_CPU or OPABI_CUDA */
  int32_t n_args;          /*  52 */
  const opabi_arg *args;   /*  56 [n_args], or NULL */
  void *user_data;         /*  64 the kernel's own, passed to every function */
  int32_t (*create)(const opabi_create *create);              /*  72 or NULL: no instance */
  void (*destroy)(void *user_data, void *instance);           /*  80 [once] with create, else NULL */
  int32_t (*specialize)(const opabi_specialize *specialize);  /*  88 or NULL */
  opabi_setup_fn setup;    /*  96 or NULL: the signature says it all */
  opabi_run_fn run;        /* 104 NULL only where specialize gives it */
  void (*release)(void *user_data);                           /* 112 [once] or NULL; by the owner of
                                 the descriptor, perhaps at exit, perhaps without Python's lock */
  int32_t (*save)(const opabi_state *state);                  /* 120 or NULL: no checkpoints */
  int32_t (*restore)(const opabi_state *state);               /* 128 with save, else NULL */
} opabi_kernel;            /* 136 */

/* ---- The library's descriptor ---------------------------------------------------------------------
 * A shared library of kernels exports one function, opabi_library_v1. It is pure, quick, callable
 * from any thread and returns the same constant pointer each time (OPABI-D-001). Loading starts no
 * thread and touches no device (OPABI-K-034). Libraries stay loaded to the end of the process, so the
 * descriptors have no owner that ends, and hosts do not call release of a library's kernels
 * (OPABI-H-016). */
typedef struct opabi_library {
  uint64_t magic;                      /*  0 OPABI_MAGIC */
  uint32_t struct_size;                /*  8 */
  uint32_t abi_min;                    /* 12 */
  const char *name;                    /* 16 [A-Za-z_][A-Za-z0-9_]* */
  const char *version;                 /* 24 the library's own, e.g. "1.4.0"; or NULL */
  const char *doc;                     /* 32 or NULL */
  int64_t n_kernels;                   /* 40 */
  const opabi_kernel *const *kernels;  /* 48 [n_kernels] */
} opabi_library;                       /* 56 */

typedef const opabi_library *(*opabi_library_fn)(void);

/* opabi:end */

/* The size of each struct in each released minor, derived from the first field that came later. */
#define OPABI_CREATE_SIZE_1_0 (sizeof(opabi_create))
#define OPABI_SPECIALIZE_SIZE_1_0 (sizeof(opabi_specialize))
#define OPABI_SETUP_SIZE_1_0 (sizeof(opabi_setup))
#define OPABI_CALL_SIZE_1_0 (sizeof(opabi_call))
#define OPABI_STATE_SIZE_1_0 (sizeof(opabi_state))
#define OPABI_KERNEL_SIZE_1_0 (sizeof(opabi_kernel))
#define OPABI_KERNEL_SIZE_MIN 112u /* a kernel may end after run: it has no release, save, restore */
#define OPABI_LIBRARY_SIZE_1_0 (sizeof(opabi_library))

/* ---- Helpers: no part of the ABI ------------------------------------------------------------------ */

#if defined(_WIN32)
#define OPABI_VISIBLE __declspec(dllexport)
#else
#define OPABI_VISIBLE __attribute__((visibility("default")))
#endif
#if defined(__cplusplus)
#define OPABI_EXPORT extern "C" OPABI_VISIBLE
#else
#define OPABI_EXPORT OPABI_VISIBLE
#endif

/* What a kernel needs of the ABI; define it before the include if a later minor is needed. */
#ifndef OPABI_NEEDS
#define OPABI_NEEDS OPABI_VERSION(OPABI_MAJOR, 0)
#endif

/* The number of elements of a tensor. */
static inline int64_t opabi_numel(const opabi_tensor *tensor) {
  int64_t n = 1;
  for (int32_t d = 0; d < tensor->ndim; d++) n *= tensor->shape[d];
  return n;
}

/* Writes a message cut at a character, and returns the status. */
static inline int32_t opabi_fail(char *err, int64_t err_cap, int64_t *err_where, int64_t sample,
                                 int32_t status, const char *message) {
  int64_t n = 0;
  if (err_where) err_where[OPABI_WHERE_SAMPLE] = sample;
  if (!err || err_cap <= 0) return status;
  while (message[n] && n < err_cap - 1) n++;
  while (n > 0 && message[n] && ((unsigned char)message[n] & 0xC0) == 0x80) n--;
  for (int64_t i = 0; i < n; i++) err[i] = message[i];
  err[n] = 0;
  return status;
}

/* return OPABI_FAIL(call, s, OPABI_ERROR_VALUE, "no face");  the same in setup, create, specialize.
 * `sample` is relative to the call, OPABI_UNSET if the failure is of no single sample. */
#define OPABI_FAIL(call, sample, status, message) \
  opabi_fail((call)->err, (call)->err_cap, (call)->err_where, (sample), (status), (message))

/* OPABI_KERNEL(blur, "uint8[h,w,c] -> uint8[h,w,c]", .doc = "...", .n_args = 1, .args = blur_args);
 * defines blur_kernel from the function blur. For C99; C++ has opabi.hpp. */
#define OPABI_KERNEL(function, ...)                                                                \
  static const opabi_kernel function##_kernel = {                                                  \
      .magic = OPABI_MAGIC, .struct_size = sizeof(opabi_kernel), .abi_min = OPABI_NEEDS,           \
      .device_type = OPABI_CPU, .name = #function, .run = (function), .signature = __VA_ARGS__}

/* OPABI_LIBRARY("mylib", "1.0.0", &blur_kernel, &sharpen_kernel)  once in a shared library. */
#define OPABI_LIBRARY(name_, version_, ...)                                                       \
  OPABI_EXPORT const opabi_library *opabi_library_v1(void);                                       \
  const opabi_library *opabi_library_v1(void) {                                                   \
    static const opabi_kernel *const kernels[] = {__VA_ARGS__};                                   \
    static const opabi_library library = {                                                        \
        OPABI_MAGIC, sizeof(opabi_library), OPABI_NEEDS, (name_), (version_), 0,                  \
        (int64_t)(sizeof kernels / sizeof kernels[0]), kernels};                                  \
    return &library;                                                                              \
  }

#ifdef __cplusplus
}
#endif

#endif /* OPABI_OPABI_H_ */
