"""What a user gets: arrays of a framework, dense, as a list or padded."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

FRAMEWORKS = ("torch", "numpy", "cupy", "jax")
RAGGED = ("list", "pad")


def take(data: Any, framework: str, *, copy: bool) -> Any:
    """``data``, which has DLPack, as an array; without a copy unless its memory is used again."""
    if framework == "torch":
        import torch

        tensor = torch.from_dlpack(data)
        if copy:
            tensor = tensor.clone()
            if tensor.is_cuda:
                torch.cuda.current_stream(tensor.device).synchronize()
        return tensor
    if framework == "numpy":
        return np.array(data.as_cpu() if hasattr(data, "as_cpu") else data)
    if framework == "jax":
        jax = importlib.import_module("jax")
        array = jax.dlpack.from_dlpack(data)
        return jax.numpy.array(array, copy=True) if copy else array
    cupy = importlib.import_module("cupy")
    array = cupy.from_dlpack(data)
    return array.copy() if copy else array


def together(samples: list[Any], framework: str, ragged: str) -> Any:
    """One array for samples of one shape; else what ``ragged`` says."""
    shapes = {tuple(sample.shape) for sample in samples}
    if len(shapes) > 1 and ragged == "list":
        return samples
    shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    if framework == "torch":
        import torch

        if len(shapes) == 1:
            return torch.stack(samples)
        made = samples[0].new_zeros((len(samples), *shape))
    else:
        module = importlib.import_module("jax.numpy" if framework == "jax" else framework)
        if len(shapes) == 1:
            return module.stack(samples)
        if framework == "jax":
            return module.stack(
                [
                    module.pad(x, [(0, n - m) for n, m in zip(shape, x.shape, strict=True)])
                    for x in samples
                ]
            )
        made = module.zeros((len(samples), *shape), samples[0].dtype)
    for i, sample in enumerate(samples):
        made[(i, *(slice(n) for n in sample.shape))] = sample
    return made
