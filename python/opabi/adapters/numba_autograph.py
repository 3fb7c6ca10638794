# SPDX-License-Identifier: Apache-2.0
"""Functions as they were written, before a conditional pipeline rewrote them.

With ``enable_conditionals=True`` DALI rewrites the source of the pipeline function, and with it
every function defined inside. Numba cannot compile the rewritten form, and need not: kernels branch
on numbers, not on nodes of the graph. So the original is compiled anew from the user's file.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import types
from typing import Any

from opabi.errors import OpabiTypeError


def is_rewritten(function: types.FunctionType) -> bool:
    return hasattr(function, "autograph_info__") and "ag__" in function.__code__.co_freevars


def original(function: types.FunctionType) -> types.FunctionType:
    """The function before it was rewritten, with the same globals, defaults and closure cells.

    To be called while the pipeline is being built: the map from rewritten to original lines is
    found in the frames that build it. Raises OpabiTypeError where the original cannot be found.
    """
    code = _original_code(function)
    if code is None:
        raise OpabiTypeError(
            f"kernel '{function.__name__}' is defined inside a pipeline with "
            "enable_conditionals=True, which rewrites it, and its original was not found. Define "
            "it outside of the pipeline function."
        )
    restored = types.FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        _closure(function, code.co_freevars),
    )
    restored.__kwdefaults__ = function.__kwdefaults__
    restored.__annotations__ = dict(function.__annotations__)
    return restored


def _closure(function: types.FunctionType, names: tuple[str, ...]) -> tuple[types.CellType, ...]:
    """The cells of these variables, which the rewritten function has too."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    what = f"kernel '{function.__name__}' is in a pipeline with enable_conditionals=True, which"
    for name in names:
        if name not in cells:
            raise OpabiTypeError(
                f"{what} hides its variable '{name}'. Define it outside of the pipeline function."
            )
        helper = getattr(_content(cells[name]), "py_func", None)
        if inspect.isfunction(helper) and is_rewritten(helper):
            raise OpabiTypeError(
                f"{what} rewrites '{name}', a jitted function that it uses. Define it outside "
                "of the pipeline function."
            )
    return tuple(cells[name] for name in names)


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


def _original_code(function: types.FunctionType) -> types.CodeType | None:
    rewritten = function.__code__
    places = _places(rewritten.co_filename)
    lines = sorted({line for _, _, line in rewritten.co_lines() if line is not None})
    # Decorators that the rewriting added have no original: go on to the next line.
    for line in range(rewritten.co_firstlineno, lines[-1] + 1):
        if line in places:
            return _compile(function, *places[line])
    return None


def _places(filename: str) -> dict[int, tuple[str, int]]:
    """The original file and line of each line of a rewritten file."""
    places: dict[int, tuple[str, int]] = {}
    frame = inspect.currentframe()
    while frame is not None:
        for value in frame.f_locals.values():
            source_map: dict[Any, Any] = {}
            if inspect.isfunction(value):
                source_map = vars(value).get("ag_source_map", source_map)
            for key, origin in source_map.items():
                if key.filename == filename:
                    places[key.lineno] = (origin.loc.filename, origin.loc.lineno)
        frame = frame.f_back
    return places


def _compile(function: types.FunctionType, filename: str, line: int) -> types.CodeType | None:
    """The code of the function that stands at ``line`` of the file: its own, of one of its
    decorators or
    of its ``def``."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)), filename)
    except SyntaxError:
        return None
    names = set(function.__code__.co_freevars) - {"ag__"}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.Lambda) or not _covers(node, line):
            continue
        if getattr(node, "name", "<lambda>") == function.__code__.co_name:
            return _code_of(node, names, filename)
    return None


def _covers(node: ast.FunctionDef | ast.Lambda, line: int) -> bool:
    if isinstance(node, ast.Lambda):
        return node.lineno == line
    return min([node.lineno, *(d.lineno for d in node.decorator_list)]) <= line <= node.lineno


def _code_of(node: ast.FunctionDef | ast.Lambda, names: set[str], filename: str) -> types.CodeType:
    """Compiles one function alone, inside another that has its free variables."""
    statement: ast.stmt
    if isinstance(node, ast.Lambda):
        node.args.defaults, node.args.kw_defaults = [], [None] * len(node.args.kwonlyargs)
        statement = ast.Expr(node)
    else:
        node.decorator_list, node.returns = [], None
        node.args.defaults, node.args.kw_defaults = [], [None] * len(node.args.kwonlyargs)
        for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            arg.annotation = None
        statement = node
    frame = ast.parse(f"def frame({', '.join(sorted(names))}):\n    pass", filename)
    outer = frame.body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [statement]
    module = compile(ast.fix_missing_locations(frame), filename, "exec", dont_inherit=True)
    return _nested(_nested(module))


def _nested(code: types.CodeType) -> types.CodeType:
    return next(const for const in code.co_consts if isinstance(const, types.CodeType))
