# SPDX-License-Identifier: Apache-2.0
"""Keeps the standard equal to the header: ``python spec/build.py --check`` or ``--write``.

Fills the marked blocks of spec/opabi.md,

    <!-- layout:opabi_call -->   a table of the struct's fields
    <!-- header:OPABI_OK -->     the declaration that has this name, as it stands in the header

up to ``<!-- end -->``, and writes spec/layout/MAJOR.MINOR.json: every offset and size as data.
Once a layout says ``"frozen": true`` it is never written again, and later ones must keep to it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import cffi

ROOT = Path(__file__).resolve().parent.parent


class SpecError(Exception):
    """The header or the standard says something that is not so."""


@dataclasses.dataclass(frozen=True)
class Field:
    name: str
    type: str
    offset: int
    size: int
    comment: str


@dataclasses.dataclass(frozen=True)
class Struct:
    name: str
    size: int
    fields: tuple[Field, ...]


@dataclasses.dataclass(frozen=True)
class Header:
    version: str
    text: str  # between the markers
    structs: dict[str, Struct]
    constants: dict[str, int]


def read_header(path: Path) -> Header:
    whole = path.read_text(encoding="utf-8")
    text = re.split(r"/\* opabi:(?:begin|end)\b.*?\*/\n", whole, flags=re.S)[1]
    major, minor = (re.search(rf"#define OPABI_{k} (\d+)", whole) for k in ("MAJOR", "MINOR"))
    magic = re.search(r"#define OPABI_MAGIC UINT64_C\((\w+)\)", whole)
    if not (major and minor and magic):
        raise SpecError(f"{path}: OPABI_MAJOR, OPABI_MINOR and OPABI_MAGIC must be plain numbers")
    ffi = cffi.FFI()
    ffi.cdef(text)
    enumerators = ffi.dlopen(None)
    constants = {"OPABI_MAGIC": int(magic[1], 16)}
    for body in re.findall(r"\nenum \{(.*?)\};", text, flags=re.S):
        for name in re.findall(r"\b(OPABI_\w+) =", body):
            constants[name] = getattr(enumerators, name)
    structs = {}
    pattern = r"typedef struct (\w+) \{\n(.*?)\n\} \1;\s*/\*\s*(\d+) \*/"
    for name, body, stated in re.findall(pattern, text, flags=re.S):
        structs[name] = _read_struct(ffi, name, body, int(stated))
    return Header(f"{major[1]}.{minor[1]}", text, structs, constants)


def _read_struct(ffi: cffi.FFI, name: str, body: str, stated_size: int) -> Struct:
    actual = ffi.typeof(name)
    if ffi.sizeof(actual) != stated_size:
        raise SpecError(f"{name}: the header says {stated_size} bytes, it has {ffi.sizeof(actual)}")
    known = dict(actual.fields or ())
    fields = []
    for declaration, comments in re.findall(r"([^;/]+);((?:\s*/\*.*?\*/)*)", body, flags=re.S):
        type_name, field_name = _split(" ".join(declaration.split()))
        stated, comment = _split_comment(comments)
        place = known[field_name]
        if stated != str(place.offset):
            raise SpecError(
                f"{name}.{field_name}: the header says offset {stated or '?'}, it is {place.offset}"
            )
        size = ffi.sizeof(place.type)
        fields.append(Field(field_name, type_name, place.offset, size, comment))
    if len(fields) != len(known):
        raise SpecError(f"{name}: {len(known)} fields are declared, {len(fields)} were understood")
    return Struct(name, stated_size, tuple(fields))


def _split(declaration: str) -> tuple[str, str]:
    """``"const char *name"`` to ``("const char *", "name")``; the same for function pointers."""
    match = re.fullmatch(r"(.*\(\*)(\w+)(\).*)", declaration)
    if match:
        return match[1] + match[3], match[2]
    match = re.fullmatch(r"(.*?)(\w+)", declaration)
    assert match is not None
    return match[1].strip(), match[2]


def _split_comment(comments: str) -> tuple[str, str]:
    """The offset that a field's comment begins with, and the rest in one line."""
    text = " ".join(re.sub(r"/\*|\*/", " ", comments).split())
    match = re.match(r"(\d+)\b ?", text)
    return (match[1], text[match.end() :]) if match else ("", text)


def layout_table(struct: Struct) -> str:
    rows = ["| offset | size | field | type | meaning |", "|---|---|---|---|---|"]
    for f in struct.fields:
        meaning = f.comment.replace("|", r"\|")
        rows.append(f"| {f.offset} | {f.size} | `{f.name}` | `{f.type}` | {meaning} |")
    rows.append(f"| {struct.size} | | | | size of `{struct.name}` |")
    return "\n".join(rows)


def declaration(header: Header, name: str) -> str:
    """The struct, enum or typedef that declares ``name``, as it stands in the header."""
    pattern = r"^(?:typedef struct \w+ \{.*?^\} \w+;|enum \{.*?\};|typedef [^{;]+;)"
    for found in re.finditer(pattern, header.text, flags=re.S | re.M):
        without_comments = re.sub(r"/\*.*?\*/", "", found[0], flags=re.S)
        if re.search(rf"\b{name}\b", without_comments):
            return f"```c\n{found[0]}\n```"
    raise SpecError(f"the header declares no {name}")


def fill(text: str, header: Header) -> str:
    def block(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        if kind == "header":
            content = declaration(header, name)
        elif name in header.structs:
            content = layout_table(header.structs[name])
        else:
            raise SpecError(f"the header declares no struct {name}")
        return f"<!-- {kind}:{name} -->\n{content}\n<!-- end -->"

    return re.sub(r"<!-- (layout|header):(\w+) -->\n.*?<!-- end -->", block, text, flags=re.S)


def layout(header: Header) -> dict[str, Any]:
    structs = {}
    for s in header.structs.values():
        fields = {f.name: {"offset": f.offset, "size": f.size, "type": f.type} for f in s.fields}
        structs[s.name] = {"size": s.size, "fields": fields}
    constants = header.constants
    return {"abi": header.version, "frozen": False, "structs": structs, "constants": constants}


def _dump(layout: dict[str, Any]) -> str:
    """JSON with one line for each field."""
    text = json.dumps(layout, indent=1) + "\n"
    field = r"\{\s+(\"offset\": \d+),\s+(\"size\": \d+),\s+(\"type\": .*)\s+\}"
    return re.sub(field, r"{\1, \2, \3}", text)


def breaks(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What a reader of layout ``old`` would find moved, changed or gone in ``new``."""
    found = []
    for name, value in old["constants"].items():
        if new["constants"].get(name) != value:
            found.append(f"{name} was {value}, is {new['constants'].get(name, 'gone')}")
    for name, struct in old["structs"].items():
        now = new["structs"].get(name, {"size": 0, "fields": {}})
        grows = "struct_size" in struct["fields"]
        if now["size"] < struct["size"] or (now["size"] > struct["size"] and not grows):
            found.append(f"{name} had {struct['size']} bytes, has {now['size']}")
        for field, place in struct["fields"].items():
            if now["fields"].get(field) != place:
                found.append(f"{name}.{field} was {place}, is {now['fields'].get(field, 'gone')}")
    return found


def outputs(root: Path = ROOT) -> dict[Path, str]:
    """The files that follow from the header, with the text they should have."""
    header = read_header(root / "include/opabi/opabi.h")
    current = layout(header)
    folder = root / "spec/layout"
    for path in sorted(folder.glob("*.json")):
        old = json.loads(path.read_text(encoding="utf-8"))
        if old["frozen"] and (found := breaks(old, current)):
            raise SpecError(f"{path.name} is frozen, and the header breaks it: " + "; ".join(found))
        if old["abi"] == header.version:
            current["frozen"] = old["frozen"]
    spec = root / "spec/opabi.md"
    return {
        spec: fill(spec.read_text(encoding="utf-8"), header),
        folder / f"{header.version}.json": _dump(current),
    }


def drifted(root: Path = ROOT) -> list[Path]:
    """The files that do not have the text they should have."""
    return [path for path, text in outputs(root).items() if _read(path) != text]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Keeps the standard equal to the header.")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="fail if a file would change")
    mode.add_argument("--write", action="store_true", help="write the files")
    options = parser.parse_args(argv)
    try:
        changed = drifted()
        if options.write:
            for path, text in outputs().items():
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    for path in changed:
        done = "written" if options.write else "differs from the header"
        print(f"{path.relative_to(ROOT)}: {done}")
    if changed and options.check:
        print("Run: python spec/build.py --write", file=sys.stderr)
    return 1 if changed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
