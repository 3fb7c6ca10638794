# SPDX-License-Identifier: Apache-2.0
"""Kernels as part of a graph: conditionals, merging, pruning, checkpoints, lifetimes, threads."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import opabi
import pytest
from nvidia.dali import fn, pipeline_def, types
from pipelines import build, feed, run, same, samples

X = [np.int32([5, 1, 7]), np.int32([1, 2]), np.int32([])]


# ---- Conditionals


def branch(kernel: Any, takes: list[bool]) -> Any:
    def define() -> Any:
        x = feed(X)
        if feed(takes):
            x = kernel(x)
        return x

    return run(define, batch_size=3, enable_conditionals=True, iterations=2)


@pytest.mark.parametrize("takes", [[True, False, True], [False, False, False], [True, True, True]])
def test_kernel_in_a_branch_gets_the_samples_of_the_branch(
    c_kernels: Any, takes: list[bool]
) -> None:
    kept = [np.int32([5, 7]), np.int32([]), np.int32([])]
    expected = [k if take else x for k, take, x in zip(kept, takes, X, strict=True)]
    assert same(branch(c_kernels.keep_greater, takes), expected)


@pytest.mark.parametrize("takes", [[True, False], [False, False], [True, True]])
def test_source_in_a_branch_has_the_size_of_the_branch(c_kernels: Any, takes: list[bool]) -> None:
    def define() -> Any:
        number = feed([np.int64(-1)] * 2)
        if feed(takes):
            number, _ = c_kernels.source()
        return number

    found = run(define, batch_size=2, enable_conditionals=True)
    counted = iter(range(2))
    assert [int(n) for n in found] == [next(counted) if take else -1 for take in takes]


def test_sink_in_a_branch_gets_the_samples_of_the_branch(
    addresses: Any, by_address: Callable[..., Any]
) -> None:
    kernel = by_address("collect", "int32[n] ->")

    def define() -> Any:
        x = feed([np.int32([k]) for k in range(4)])
        if feed([False, True, False, True]):
            kernel(x)
        return x

    pipeline = build(define, batch_size=4, enable_conditionals=True)
    addresses.take_collected()
    pipeline.run()
    del pipeline
    collected = addresses.take_collected().to_bytes(8, "little")
    assert [count > 0 for count in collected] == [
        False,
        True,
        False,
        True,
        False,
        False,
        False,
        False,
    ]


def test_kernel_in_a_branch_takes_arguments_of_the_branch(c_kernels: Any) -> None:
    x = [np.float32([1])] * 3

    def define() -> Any:
        gain = feed(np.float32([2, 3, 4]))
        y = feed(x)
        if feed([True, False, True]):
            y = c_kernels.affine(y, gain=gain, bias=feed(np.float32([10, 20, 30])))
        return y

    found = run(define, batch_size=3, enable_conditionals=True)
    assert same(found, [np.float32([12]), np.float32([1]), np.float32([34])])


def test_seeded_kernel_in_a_branch_draws_a_seed(c_kernels: Any) -> None:
    def define() -> Any:
        x = feed([np.int32(0)] * 3)
        seed = fn.cast(x, dtype=types.INT64)
        if feed([True, False, True]):
            seed = c_kernels.seeded(x)
        return seed

    first, second, third = (
        int(seed) for seed in run(define, batch_size=3, enable_conditionals=True)
    )
    assert second == 0
    assert len({0, first, third}) == 3


def test_kernel_made_inside_a_conditional_pipeline_runs(addresses: Any) -> None:
    def define() -> Any:
        kernel = opabi.c.function(addresses.invert_run, "uint8[n] -> uint8[n]", name="inside")
        x = feed([np.uint8([1]), np.uint8([2])])
        if feed([True, False]):
            x = kernel(x)
        return x

    assert same(
        run(define, batch_size=2, enable_conditionals=True), [np.uint8([254]), np.uint8([2])]
    )


def test_code_of_opabi_is_not_converted_by_conditional_pipelines(
    c_kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nvidia.dali._autograph.impl import api

    converted: list[str] = []
    convert = api._convert_actual

    def spy(entity: Any, context: Any) -> Any:
        converted.append(entity.__module__)
        return convert(entity, context)

    monkeypatch.setattr(api, "_convert_actual", spy)
    branch(c_kernels.keep_greater, [True, False, True])
    assert converted
    assert not [module for module in converted if module.split(".")[0] == "opabi"]


# ---- Merging and pruning


def test_pure_kernels_of_equal_calls_are_merged(
    addresses: Any, by_address: Callable[..., Any]
) -> None:
    kernel = by_address("count", "uint8[n] -> int64", pure=True)

    def define() -> Any:
        x = feed([np.uint8([1])] * 4)
        return kernel(x), kernel(x)

    first, second = run(define, batch_size=4)
    assert same(first, second)


def test_impure_kernels_of_equal_calls_both_run(by_address: Callable[..., Any]) -> None:
    kernel = by_address("count", "uint8[n] -> int64")

    def define() -> Any:
        x = feed([np.uint8([1])] * 4)
        return kernel(x), kernel(x)

    first, second = run(define, batch_size=4)
    assert len({int(n) for n in first + second}) == 8


@pytest.mark.parametrize("pure", [True, False])
def test_unused_kernel_runs_only_if_it_is_impure(
    addresses: Any, by_address: Callable[..., Any], pure: bool
) -> None:
    count = by_address("count", "uint8[n] -> int64")

    def counted() -> int:
        return int(count(np.uint8([1])))

    kernel = by_address("count", "uint8[n] -> int64", pure=pure)

    def define() -> Any:
        x = feed([np.uint8([1])] * 4)
        kernel(x)
        return x

    pipeline = build(define, batch_size=4)
    before = counted()
    pipeline.run()
    del pipeline
    assert (counted() - before > 1) is not pure


# ---- State


@pytest.mark.parametrize("by_library", [True, False])
def test_kernel_without_state_takes_part_in_a_checkpoint(
    c_kernels: Any, by_address: Callable[..., Any], by_library: bool
) -> None:
    kernel = c_kernels.identity if by_library else by_address("any", "T[...] -> T[...]")

    @pipeline_def(batch_size=4, num_threads=2, device_id=None, enable_checkpointing=True, seed=3)
    def define() -> Any:
        return kernel(fn.random.uniform(range=(0, 1)))

    pipeline = define()
    pipeline.build()
    pipeline.run()
    saved = pipeline.checkpoint()
    expected = samples(pipeline.run()[0])
    restored = define(checkpoint=saved)
    restored.build()
    assert same(samples(restored.run()[0]), expected)


def test_kernel_with_state_counts_for_each_operator_alone(c_kernels: Any) -> None:
    def define() -> Any:
        x = feed([0] * 3)
        return c_kernels.counter(x), c_kernels.counter(x)

    for output in run(define, batch_size=3, num_threads=3, iterations=2):
        assert [int(n) for n in output] == [3, 4, 5]


def counting(kernel: Any, checkpoint: bytes | None = None) -> Any:
    @pipeline_def(batch_size=100, num_threads=2, device_id=None, enable_checkpointing=True, seed=3)
    def define() -> Any:
        return kernel(fn.random.uniform(range=(0, 1)))

    pipeline = define(checkpoint=checkpoint)
    pipeline.build()
    return pipeline


def test_kernel_with_state_goes_on_after_a_checkpoint(c_kernels: Any) -> None:
    pipeline = counting(c_kernels.counter)
    for _ in range(2):
        pipeline.run()
    restored = counting(c_kernels.counter, pipeline.checkpoint())  # 200 is a byte that is no UTF-8
    assert [int(n) for n in samples(restored.run()[0])] == list(range(200, 300))


def test_kernel_with_state_and_no_save_is_refused_in_a_checkpoint() -> None:
    kernel = opabi.c.compile(NO_SAVE, language="c", name="no_save").counted
    with pytest.raises(
        RuntimeError, match=r"kernel 'no_save\.counted' keeps state and has no save"
    ):
        counting(kernel).run()


NO_SAVE = """
#include <opabi/opabi.h>
static int32_t create(const opabi_create *create) {
  return create->n_workers > 0 ? OPABI_OK : OPABI_ERROR_ABI;
}
static void destroy(void *user_data, void *instance) { (void)user_data, (void)instance; }
static int32_t counted(const opabi_call *call) {
  for (int64_t s = 0; s < call->n_samples; s++) *(float *)call->outputs[s].data = 1;
  return OPABI_OK;
}
OPABI_KERNEL(counted, "float32 -> float32", .create = create, .destroy = destroy);
OPABI_LIBRARY("no_save", "1", &counted_kernel)
"""


# ---- Lifetimes


def test_kernel_by_address_lives_as_long_as_a_pipeline_may_need_it(addresses: Any) -> None:
    class Owner:
        pass

    def define() -> Any:
        owner = Owner()
        owners.append(weakref.ref(owner))
        kernel = opabi.c.function(
            addresses.invert_run, "uint8[n] -> uint8[n]", name="mortal", keep=owner
        )
        return kernel(feed([np.uint8([1])]))

    owners: list[Any] = []
    pipeline = pipeline_def(define)(batch_size=1, num_threads=2, device_id=None)
    gc.collect()
    assert owners[0]() is not None, "before the pipeline is built"
    pipeline.build()
    assert same(samples(pipeline.run()[0]), [np.uint8([254])])
    gc.collect()
    assert owners[0]() is not None, "while the pipeline is there"
    del pipeline
    gc.collect()
    assert owners[0]() is None, "after the pipeline"


def test_kernel_by_address_has_one_handle_for_all_its_operators(
    plugin: Any, by_address: Callable[..., Any]
) -> None:
    kernel = by_address("invert", "uint8[n] -> uint8[n]")
    assert plugin.registration(kernel) is plugin.registration(kernel)


def test_handle_that_is_forgotten_is_unknown(plugin: Any, by_address: Callable[..., Any]) -> None:
    kernel = by_address("invert", "uint8[n] -> uint8[n]")
    handle = plugin.registration(kernel).handle
    del kernel
    gc.collect()
    with pytest.raises(ValueError, match="no kernel of this process"):
        build(lambda: fn.opabi.call(feed([np.uint8([1])]), handle=handle), batch_size=1)


# ---- Threads


@pytest.mark.parametrize("exec_dynamic", [True, False])
def test_slow_kernel_uses_all_threads_on_samples_of_one_byte(
    c_kernels: Any, exec_dynamic: bool
) -> None:
    def define() -> Any:
        x = c_kernels.slow(feed([np.uint8(1)] * 16), us=3000)
        return c_kernels.split(x)

    found = run(define, batch_size=16, num_threads=4, exec_dynamic=exec_dynamic)
    assert sorted(int(row[0]) for row in found) == list(range(16))


def test_pipelines_in_two_python_threads_do_not_disturb_each_other(c_kernels: Any) -> None:
    import threading

    failures: list[BaseException] = []

    def work(value: int) -> None:
        try:
            batch = [np.float32([value])] * 16
            pipeline = build(
                lambda: c_kernels.affine(feed(batch), gain=feed([np.float32(value)] * 16)),
                batch_size=16,
            )
            for _ in range(50):
                assert same(samples(pipeline.run()[0]), [np.float32([value * value])] * 16)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(value,)) for value in (2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
