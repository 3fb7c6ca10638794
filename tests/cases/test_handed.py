# SPDX-License-Identifier: Apache-2.0
"""What users of custom operators reported, as cases with their right values: H1 to H8.

Each runs eagerly and in a pipeline, in C and in Numba where both can.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import opabi
import pytest

dali = pytest.importorskip("nvidia.dali")
pytest.importorskip("numba")
fn, pipeline_def = dali.fn, dali.pipeline_def

from . import kernels as numba_kernels  # noqa: E402


@pytest.fixture(params=["c", "numba"])
def kernels(request: pytest.FixtureRequest, c_kernels: Any) -> Any:
    return c_kernels if request.param == "c" else numba_kernels


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def equal(found: list[np.ndarray], expected: list[Any], dtype: Any) -> bool:
    return [a.tolist() for a in found] == expected and all(a.dtype == dtype for a in found)


def test_h1_joined_vectors_have_both_lengths(run: Any, kernels: Any) -> None:
    out = run(kernels.joined, [i32(0, 1), i32(5, 6, 7)], [i32(0, 1, 2, 3), i32(9)])
    assert equal(out, [[0, 1, 0, 1, 2, 3], [5, 6, 7, 9]], np.int32)


def test_h2_type_change_gives_floats_of_the_same_shape(run: Any, kernels: Any) -> None:
    batch = [
        np.array([0, 51, 255], np.uint8),
        np.zeros(0, np.uint8),
        np.full(1 << 20, 255, np.uint8),
    ]
    small, empty, large = run(kernels.to_float, batch)
    np.testing.assert_allclose(small, [0, 0.2, 1], atol=1e-6)
    assert empty.shape == (0,)
    assert (large == 1.0).all()
    assert {small.dtype, empty.dtype, large.dtype} == {np.dtype(np.float32)}


def test_h2_type_change_ten_processes_end_well() -> None:
    source = str(Path(__file__).parents[1] / "c" / "kernels.c")
    code = (
        f"import numpy as np, opabi; k = opabi.c.compile({source!r}).to_float\n"
        "out = k([np.uint8([0, 51, 255]), np.uint8([]), np.full(1 << 20, 255, np.uint8)])\n"
        "assert (out[2] == 1).all() and out[1].shape == (0,)"
    )
    for _ in range(10):
        assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_h3_failing_sample_is_named_and_the_next_batch_is_right(kernels: Any) -> None:
    batches = iter([[i32(0), i32(1), i32(2)], [i32(0), i32(2), i32(3)]])

    @pipeline_def(batch_size=3, num_threads=2, device_id=None, prefetch_queue_depth=1)
    def pipe() -> Any:
        data = fn.external_source(source=lambda: next(batches))
        return kernels.fail_on_one(data)  # the line to show

    pipeline = pipe()
    with pytest.raises(ValueError, match=r"(?s)fail_on_one.*sample 1.*no face") as raised:
        pipeline.run()
    assert "return kernels.fail_on_one(data)  # the line to show" in str(raised.value)
    (out,) = pipeline.run()
    assert [np.array(out.at(i)).tolist() for i in range(3)] == [[10], [12], [13]]


def test_h3_failing_sample_eagerly_is_named_and_the_next_batch_is_right(kernels: Any) -> None:
    with pytest.raises(opabi.OpabiValueError, match=r"fail_on_one.*sample 1.*no face"):
        kernels.fail_on_one([i32(0), i32(1), i32(2)])
    assert equal(kernels.fail_on_one([i32(0), i32(2), i32(3)]), [[10], [12], [13]], np.int32)


def test_h4_parameters_per_sample_and_constant(run: Any, kernels: Any) -> None:
    x = np.array([1, 2, 3], np.float32)
    gains = [np.float32(2), np.float32(10)]
    out = run(kernels.affine, [x, x], gain=gains, bias=1)
    assert equal(out, [[3, 5, 7], [11, 21, 31]], np.float32)
    out = run(kernels.affine, [x, x], gain=np.array([1, 2, 3], np.float32), bias=1)
    assert equal(out, [[2, 5, 10]] * 2, np.float32)


def test_h4_gpu_tensor_as_parameter_is_refused_by_name(kernels: Any) -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=0)
    def pipe() -> Any:
        x = fn.external_source(source=lambda: [np.ones(3, np.float32)] * 2)
        return kernels.affine(x, gain=fn.constant(fdata=[2.0], device="gpu"))

    with pytest.raises(TypeError, match="gain"):
        pipe()


def hwc() -> np.ndarray:
    return np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)


def test_h5_layout_stays_and_a_native_crop_works_after_it(kernels: Any) -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipe() -> Any:
        same = kernels.identity(fn.external_source(source=lambda: [hwc()] * 2, layout="HWC"))
        return same, fn.crop(same, crop=(2, 2), crop_pos_x=0, crop_pos_y=0)

    same, cropped = pipe().run()
    assert same.layout() == "HWC"
    assert np.array_equal(np.array(cropped.at(0)), hwc()[:2, :2])


def test_h5_transposing_kernel_states_its_layout(kernels: Any) -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipe() -> Any:
        return kernels.transpose_chw(fn.external_source(source=lambda: [hwc()] * 2, layout="HWC"))

    (out,) = pipe().run()
    assert out.layout() == "CHW"
    assert np.array_equal(np.array(out.at(1)), hwc().transpose(2, 0, 1))
    assert np.array_equal(kernels.transpose_chw(hwc()), hwc().transpose(2, 0, 1))


def test_h5_kernel_sees_its_inputs_layout(c_kernels: Any) -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipe() -> Any:
        return c_kernels.layout_of(fn.external_source(source=lambda: [hwc()] * 2, layout="HWC"))

    (out,) = pipe().run()
    assert np.array(out.at(0)).tobytes() == b"HWC"


def test_h6_filter_gives_as_many_as_there_are(run: Any, c_kernels: Any) -> None:
    batch = [i32(5, 1, 7), i32(1, 2), i32()]
    assert equal(run(c_kernels.keep_greater, batch, limit=4), [[5, 7], [], []], np.int32)
    for n in (3, 1, 3):
        assert equal(
            run(c_kernels.keep_greater, batch[:n], limit=4), [[5, 7], [], []][:n], np.int32
        )


def test_h6_filter_in_a_branch_without_samples_is_not_called(c_kernels: Any) -> None:
    batch = [i32(5, 1, 7), i32(1, 2), i32(3)]
    before = int(c_kernels.sunk())

    @pipeline_def(batch_size=3, num_threads=1, device_id=None, enable_conditionals=True)
    def pipe(taken: bool) -> Any:
        data = fn.external_source(source=lambda: batch)
        if fn.random.coin_flip(probability=1.0 if taken else 0.0):
            c_kernels.sink(data)
            out = c_kernels.keep_greater(data, limit=4)
        else:
            out = data
        return out

    (out,) = pipe(False).run()
    assert [np.array(out.at(i)).tolist() for i in range(3)] == [[5, 1, 7], [1, 2], [3]]
    assert int(c_kernels.sunk()) == before
    (out,) = pipe(True).run()
    assert [np.array(out.at(i)).tolist() for i in range(3)] == [[5, 7], [], []]


def test_h7_eight_ports_keep_their_places(run: Any, c_kernels: Any) -> None:
    outputs = run(c_kernels.eight, *[[np.array([k], np.int16)] * 2 for k in range(8)])
    assert [a.tolist() for port in outputs for a in port] == [[7]] * 16


def test_h7_source_without_inputs_gives_two_outputs(c_kernels: Any) -> None:
    number, row = c_kernels.source()
    assert (int(number), row.tolist()) == (0, [0, 1, 2])

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def pipe() -> Any:
        return c_kernels.source()

    numbers, rows = pipe().run()
    assert [int(np.array(numbers.at(i))) for i in range(4)] == [0, 1, 2, 3]
    assert [np.array(rows.at(i)).tolist() for i in range(4)] == [[0, 1, 2]] * 4


def test_h7_sink_gets_each_sample_once(c_kernels: Any) -> None:
    before = int(c_kernels.sunk())
    c_kernels.sink([i32(k) for k in range(5)])
    assert int(c_kernels.sunk()) == before + 5

    @pipeline_def(
        batch_size=5, num_threads=2, device_id=None, prefetch_queue_depth=1, exec_dynamic=False
    )
    def pipe() -> Any:
        data = fn.external_source(source=lambda: [i32(k) for k in range(5)])
        c_kernels.sink(data)
        return data

    pipeline = pipe()
    pipeline.build()
    before = int(c_kernels.sunk())
    pipeline.run()
    assert (int(c_kernels.sunk()) - before) % 5 == 0
    assert int(c_kernels.sunk()) > before


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["-DABI_MIN=OPABI_VERSION(2,0)"], r"2\.0.*1\.0"),
        (["-DNULL_KERNEL"], "OPABI-D-013"),
        (['-DSIGNATURE="int32[n] -> int32[?]"'], "OPABI-D-008"),
        (["-DMAGIC=1"], "OPABI-D-002"),
        (["-DRUN=0"], "OPABI-D-007"),
        (["-DUNDEFINED_SYMBOL"], "nobody_defines_this"),
    ],
)
def test_h8_broken_handshake_is_refused(broken: Any, flags: list[str], text: str) -> None:
    with pytest.raises(opabi.OpabiError, match=f"(?s){text}"):
        broken(*flags)


def test_h8_smaller_struct_of_the_same_major_works(broken: Any) -> None:
    library = broken("-DSIZE=OPABI_KERNEL_SIZE_MIN")
    assert library.copy(np.array([7], np.uint8)).tolist() == [7]


def test_h8_larger_struct_of_the_same_major_works(broken: Any) -> None:
    library = broken("-DSIZE=sizeof(later_kernel)")
    assert library.copy(np.array([7], np.uint8)).tolist() == [7]


def test_h8_library_from_two_paths_is_harmless(c_kernels: Any, tmp_path: Path) -> None:
    copy = tmp_path / "copy.so"
    copy.write_bytes(Path(c_kernels.path).read_bytes())
    other = opabi.load(str(copy))
    for library in (c_kernels, other, opabi.load(c_kernels.path)):
        assert library.invert(np.array([0, 255], np.uint8)).tolist() == [255, 0]
