# SPDX-License-Identifier: Apache-2.0
"""Calls with arrays on the GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import opabi
import pytest
from opabi.adapters import cuda
from opabi.adapters import cupy as adapter

SOURCE = Path(__file__).parent / "kernels.cu"
ODD = [(0, 3), (1, 1), (7, 3), (333, 517), (16, 16), (0, 0), (1, 4097), (1000, 999)]

INVERT_SOURCE = """
#include <opabi/opabi.cuh>
extern "C" __global__ void invert(OPABI_BATCH(batch)) {
  opabi::transform<unsigned char, unsigned char>(batch, [](unsigned char x) { return 255 - x; });
}
extern "C" __global__ void invert_each(OPABI_BATCH(batch)) {
  opabi::for_each(batch, [](const opabi::sample &s, long long i) {
    s.out<unsigned char>(0)[i] = 255 - s.in<unsigned char>(0)[i];
  });
}
"""


def packed(
    rng: Any, shapes: list[tuple[int, ...]], dtype: Any = np.uint8, start: int = 1
) -> list[Any]:
    """Samples in one buffer, one after the other, from an odd address on."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    values = rng.integers(0, 200, sum(sizes)).astype(dtype)
    buffer = cupy.empty(sum(sizes) + start, dtype)
    buffer[start:] = cupy.asarray(values)
    ends = np.cumsum(sizes) + start
    return [
        buffer[end - size : end].reshape(shape)
        for end, size, shape in zip(ends, sizes, shapes, strict=True)
    ]


def inverted(found: list[Any], given: list[Any]) -> bool:
    return all(
        np.array_equal(a.get(), 255 - b.get()) and a.dtype == np.uint8
        for a, b in zip(found, given, strict=True)
    )


def kernels(library: Any) -> dict[str, Any]:
    signature = "uint8[...] -> uint8[...]"
    module = cupy.RawModule(code=INVERT_SOURCE, options=adapter.options())
    return {
        "nvcc": library.invert,
        "nvcc, device tables": library.invert_tables,
        "elementwise": adapter.elementwise("out = 255 - in", signature),
        "RawKernel": adapter.kernel(
            cupy.RawKernel(INVERT_SOURCE, "invert", options=adapter.options()),
            signature,
            adapter.Launch(block=256, per_block=256 * 64),
        ),
        "RawModule, by total": adapter.kernel(
            module.get_function("invert"),
            signature,
            adapter.Launch(block=256, per_block=256 * 64, by_total=True),
        ),
        "for_each": adapter.kernel(
            module.get_function("invert_each"), signature, adapter.Launch(block=256, per_block=1024)
        ),
    }


@pytest.mark.parametrize(
    "name",
    ["nvcc", "nvcc, device tables", "elementwise", "RawKernel", "RawModule, by total", "for_each"],
)
@pytest.mark.parametrize("start", [0, 1, 3, 8, 15])
def test_odd_samples_at_odd_addresses_are_exact(
    library: Any, rng: Any, name: str, start: int
) -> None:
    given = packed(rng, ODD, start=start)
    kernel = kernels(library)[name]
    assert inverted(kernel(given), given)
    out = packed(rng, ODD, start=(start * 7 + 1) % 16)  # aligned otherwise than the input
    guard = [a.get().copy() for a in out]
    kernel(given, out=out)
    assert inverted(out, given)
    assert len(guard) == len(out)


def test_large_batch_whose_table_is_staged_is_exact(library: Any, rng: Any) -> None:
    given = packed(rng, [(int(n), 3) for n in rng.integers(0, 50, 2000)])
    for kernel in (
        library.invert,
        adapter.elementwise("out = 255 - in", "uint8[...] -> uint8[...]"),
    ):
        for _ in range(3):
            assert inverted(kernel(given), given)


def test_more_samples_than_a_grid_has_rows_is_exact(rng: Any) -> None:
    given = packed(rng, [(3,)] * 70_000)
    found = adapter.elementwise("out = 255 - in", "uint8[...] -> uint8[...]")(given)
    assert np.array_equal(cupy.concatenate(found).get(), 255 - cupy.concatenate(given).get())


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("made", ["float32", "uint8", "float64"])
def test_elementwise_dtypes_and_arguments_are_exact(rng: Any, dtype: str, made: str) -> None:
    kernel = adapter.elementwise(
        "y = x * gain + offset",
        f"x: T[...] -> y: {made}[...]",
        arguments=[opabi.Argument("gain", "float32", 0), opabi.Argument("offset", "int32", 0, 2)],
    )
    given = packed(rng, ODD, np.dtype(dtype))
    gains = [float(s % 2) for s in range(len(given))]
    found = kernel(given, gain=gains)
    for a, b, gain in zip(found, given, gains, strict=True):
        assert a.dtype == made
        assert np.array_equal(a.get(), (b.get() * np.float32(gain) + 2).astype(made))


def test_elementwise_two_inputs_one_on_the_cpu_is_exact(rng: Any) -> None:
    add = adapter.elementwise("out = in0 + in1", "T[...], int32[...] -> float32[...]")
    given = packed(rng, ODD, np.float32)
    host = [rng.integers(0, 9, shape).astype(np.int32) for shape in ODD]
    found = add(given, host)
    assert all(
        np.array_equal(a.get(), b.get() + c) for a, b, c in zip(found, given, host, strict=True)
    )


def test_template_is_instantiated_for_each_dtype(rng: Any) -> None:
    code = """
    #include <opabi/opabi.cuh>
    template <typename T> __global__ void twice(OPABI_BATCH(batch)) {
      opabi::transform<T, T>(batch, [](T x) { return x + x; });
    }
    """
    twice = adapter.source(
        code, "T[...] -> T[...]", "twice<{T}>", adapter.Launch(block=128, per_block=128 * 4 * 2)
    )
    for dtype in (np.uint8, np.float32, np.int64):
        given = packed(rng, ODD, np.dtype(dtype))
        assert all(
            np.array_equal(a.get(), b.get() + b.get())
            for a, b in zip(twice(given), given, strict=True)
        )


def test_declared_parameters_of_a_classic_kernel_are_exact(rng: Any) -> None:
    code = """extern "C" __global__
    void flip(const float *in, float *out, int h, int w, float gain) {
      int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
      if (x < w && y < h) out[y * w + x] = in[y * w + w - 1 - x] * gain;
    }"""
    flip = adapter.kernel(
        cupy.RawKernel(code, "flip"),
        "x: float32[h,w] -> float32[h,w]",
        adapter.Launch(block=(32, 8), grid=("w", "h"), parameters=["x", "out", "h", "w", "gain"]),
        arguments=[opabi.Argument("gain", "float32", 0)],
    )
    given = packed(rng, [(5, 70), (0, 3), (31, 33)], np.float32)
    found = flip(given, gain=[1, 2, 3])
    assert all(
        np.array_equal(a.get(), b.get()[:, ::-1] * g)
        for a, b, g in zip(found, given, (1, 2, 3), strict=True)
    )


def test_torch_tensors_on_a_stream_of_their_own(rng: Any) -> None:
    torch = pytest.importorskip("torch")
    invert = adapter.elementwise("out = 255 - in", "uint8[...] -> uint8[...]")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.randint(0, 256, (64, 333), dtype=torch.uint8, device="cuda")
        found = invert([x, x[1:5]])
    stream.synchronize()
    assert isinstance(found[0], torch.Tensor)
    assert torch.equal(found[0], 255 - x)
    assert torch.equal(found[1], 255 - x[1:5])


def test_strided_array_is_refused_not_copied(library: Any) -> None:
    with pytest.raises(opabi.OpabiValueError, match="contiguous"):
        library.invert(cupy.zeros((4, 6), np.uint8)[:, ::2])


def test_scratch_of_each_kind_is_given(library: Any, rng: Any) -> None:
    given = packed(rng, ODD[2:])
    for _ in range(3):
        found = library.scratch(given)
    expected = [a.get().copy() for a in given]
    expected[0].flat[0] = 42
    assert all(np.array_equal(a.get(), b) for a, b in zip(found, expected, strict=True))


def test_graph_capture_and_replay_are_exact(rng: Any) -> None:
    invert = adapter.elementwise("out = 255 - in", "uint8[...] -> uint8[...]")
    given, out = packed(rng, ODD[1:5]), packed(rng, ODD[1:5])
    invert(given, out=out)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        invert(given, out=out)
        graph = stream.end_capture()
    for value in (3, 200):
        for array in given:
            array.fill(value)
        cupy.cuda.Device().synchronize()
        graph.launch(stream)
        stream.synchronize()
        assert inverted(out, given)


def test_launch_failures_name_kernel_and_cause(library: Any) -> None:
    x = cupy.zeros(5, np.uint8)
    with pytest.raises(opabi.OpabiRuntimeError, match=r"too_many.*invalid"):
        library.too_many(x)
    for launch, text in (
        (adapter.Launch(block=4096), "4096, 1, 1"),
        (adapter.Launch(shared=300_000), "300000 bytes"),
    ):
        raw = cupy.RawKernel(INVERT_SOURCE, "invert", options=adapter.options())
        with pytest.raises(
            opabi.OpabiRuntimeError, match=rf"invert.*{text}.*CUDA_ERROR_INVALID_VALUE"
        ):
            adapter.kernel(raw, "uint8[...] -> uint8[...]", launch)(x)
    assert inverted([library.invert(x)], [x])


def test_source_that_does_not_compile_shows_the_compilers_text() -> None:
    with pytest.raises(opabi.OpabiRuntimeError, match="unknown_function"):
        adapter.elementwise("out = unknown_function(in)", "uint8[...] -> uint8[...]")(
            cupy.zeros(5, np.uint8)
        )


def test_function_that_takes_no_batch_is_refused() -> None:
    raw = cupy.RawKernel('extern "C" __global__ void f(const int *x) {}', "f")
    with pytest.raises(opabi.OpabiValueError, match="expected one parameter OPABI_BATCH"):
        adapter.kernel(raw, "uint8[n] -> uint8[n]")(cupy.zeros(5, np.uint8))


def test_illegal_address_in_checked_mode_names_the_kernel() -> None:
    code = (
        "import opabi, cupy, pathlib\n"
        f"library = opabi.cuda.compile(pathlib.Path({str(SOURCE)!r}))\n"
        "library.stray(cupy.zeros(5, 'u1'), checked=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode != 0
    assert "stray" in done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stderr


def test_cuda_core_kernel_by_declared_parameters(rng: Any) -> None:
    core = pytest.importorskip("cuda.core")
    device = core.Device()
    device.set_current()
    code = """extern "C" __global__ void add(const int *x, int *y, int n, int k) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i] + k;
    }"""
    program = core.Program(code, "c++", core.ProgramOptions(arch=f"sm_{device.arch}"))
    function = program.compile("cubin").get_kernel("add")
    add = cuda.kernel(
        function,
        "x: int32[n] -> y: int32[n]",
        cuda.Launch(block=128, grid="n", parameters=["x", "y", "n", "k"]),
        name="add",
        arguments=[opabi.Argument("k", "int32", 0)],
    )
    given = packed(rng, [(500,), (0,), (3,)], np.int32)
    assert all(
        np.array_equal(a.get(), b.get() + 5) for a, b in zip(add(given, k=5), given, strict=True)
    )


def test_triton_kernel_by_declared_parameters(rng: Any, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    sys.path.insert(0, str(Path(__file__).parent))
    import triton_kernels

    compiled = triton_kernels.compile_add()
    add = cuda.kernel(
        compiled,
        "x: float32[n] -> y: float32[n]",
        cuda.Launch(
            block=compiled.metadata.num_warps * 32,
            grid="n",
            per_block=triton_kernels.BLOCK,
            # Triton adds two pointers, to scratch memory that this kernel does not use.
            parameters=["x", "y", "n", cuda.Const(0, "int64"), cuda.Const(0, "int64")],
            shared=compiled.metadata.shared,
        ),
        name="add_one",
    )
    given = packed(rng, [(5000,), (0,), (3,)], np.float32, start=4)
    assert all(np.array_equal(a.get(), b.get() + 1) for a, b in zip(add(given), given, strict=True))


def test_numba_cuda_function_over_arrays_is_exact(rng: Any) -> None:
    numba_cuda = pytest.importorskip("numba.cuda")

    @opabi.numba_cuda.kernel("x: T[h,w] -> y: float32[h,w]", grid=("h", "w"), block=(8, 32))
    def scale(x, y, *, gain: float = 2.0, offset: int):  # type: ignore[no-untyped-def]
        i, j = numba_cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            y[i, j] = x[i, j] * gain + offset

    for dtype in (np.uint8, np.float32):
        given = packed(rng, ODD[:3] + ODD[6:], np.dtype(dtype))
        found = scale(given, offset=list(range(len(given))))
        for s, (a, b) in enumerate(zip(found, given, strict=True)):
            assert np.array_equal(a.get(), (b.get() * np.float32(2) + s).astype(np.float32))


def test_numba_cuda_function_that_does_not_compile_says_why() -> None:
    pytest.importorskip("numba.cuda")

    @opabi.numba_cuda.kernel("x: uint8[n] -> y: uint8[n]")
    def wrong(x, y):  # type: ignore[no-untyped-def]
        y[0] = frozenset(x)

    with pytest.raises(opabi.OpabiRuntimeError, match="numba-cuda could not compile 'wrong'"):
        wrong(cupy.zeros(3, np.uint8))
