"""Finds outputs anywhere in a batch, and puts values in their places; all else stays the same
object."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import optree

from opabi.errors import OpabiTypeError
from opabi.proxy._call import Output

_PLAIN = {type(None), bool, int, float, complex, str, bytes, np.ndarray}


def replace(batch: Any, value: Callable[[Output], Any], namespace: str) -> Any:
    """``batch`` with ``value(output)`` for each output; ``batch`` itself if there is none.

    Containers are those of optree, and of its ``namespace``; and dataclasses. Raises OpabiTypeError
    for an output in anything else, rather than leave it there.
    """
    if type(batch) is Output:
        return value(batch)
    try:
        leaves, spec = optree.tree_flatten(batch, none_is_leaf=True, namespace=namespace)
    except RecursionError:
        raise OpabiTypeError(f"a batch holds itself: {type(batch).__qualname__}.") from None
    changed = False
    for i, leaf in enumerate(leaves):
        if type(leaf) in _PLAIN:
            continue
        new = value(leaf) if type(leaf) is Output else _inside(leaf, value, namespace)
        if new is not leaf:
            leaves[i], changed = new, True
    return optree.tree_unflatten(spec, leaves) if changed else batch


def _inside(leaf: Any, value: Callable[[Output], Any], namespace: str) -> Any:
    if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
        new = {}
        for field in dataclasses.fields(leaf):
            old = getattr(leaf, field.name)
            made = replace(old, value, namespace)
            if made is not old:
                new[field.name] = made
        if not new:
            return leaf
        result = copy.copy(leaf)
        for name, made in new.items():
            object.__setattr__(result, name, made)  # also of a frozen one
        return result
    for held in _held(leaf):
        if type(held) is Output or (
            isinstance(held, list | tuple) and any(type(x) is Output for x in held)
        ):
            raise OpabiTypeError(
                f"{held!r} is inside a {type(leaf).__module__}.{type(leaf).__qualname__}, which "
                f"cannot be looked "
                f"into. Register it with optree.register_pytree_node, or use a dict, a tuple or a "
                f"dataclass."
            )
    return leaf


def _held(leaf: Any) -> Iterable[Any]:
    if isinstance(leaf, Mapping):
        return leaf.values()
    if isinstance(leaf, AbstractSet):
        return leaf
    slots = [name for kind in type(leaf).__mro__ for name in getattr(kind, "__slots__", ())]
    values = [getattr(leaf, name, None) for name in slots if not name.startswith("__")]
    return [*values, *vars(leaf).values()] if hasattr(leaf, "__dict__") else values
