"""Memory that crosses processes: blocks without a name, each written by one process and given back
by another.

A block is a memfd of its writer; the reader opens it through /proc and maps it once. It has no
name, so nothing is left behind whoever dies, and its first byte says whose it is, so there is no
lock to be left locked. Writers use blocks again: a fresh one costs five times as much, in page
faults.
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import secrets
import threading
from typing import Any

import numpy as np

HEADER = 64
_KEPT = 8
_TOKEN = slice(8, 24)


@dataclasses.dataclass(frozen=True)
class Address:
    pid: int
    fd: int
    token: bytes
    size: int


class Block:
    """The writer's side."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._fd = os.memfd_create("opabi-proxy", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self._fd, HEADER + size)
            self._map = mmap.mmap(self._fd, HEADER + size)
        except BaseException:
            os.close(self._fd)
            raise
        self._token = secrets.token_bytes(16)
        self._map[_TOKEN] = self._token
        self.data = np.frombuffer(self._map, np.uint8, offset=HEADER)

    @property
    def free(self) -> bool:
        return self._map[0] == 0

    def take(self) -> Address:
        self._map[0] = 1
        return Address(os.getpid(), self._fd, self._token, self.size)

    def close(self) -> None:
        self._map[1] = 1  # the reader may unmap it
        os.close(self._fd)


class _Writer:
    """The blocks of this process. As many are in use as the loader has batches under way."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._blocks: list[Block] = []

    def block(self, size: int) -> tuple[Block, Address]:
        with self._lock:
            free = [b for b in self._blocks if b.free]
            fitting = [b for b in free if b.size >= size]
            if fitting:
                found = min(fitting, key=lambda b: b.size)
            else:
                # Too small for what comes now, or more than are needed: give them back first.
                for block in free if len(self._blocks) >= _KEPT else free[:1]:
                    self._blocks.remove(block)
                    block.close()
                found = Block(-(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
                self._blocks.append(found)
            return found, found.take()


_writer: _Writer | None = None


def take(size: int) -> tuple[Block, Address]:
    """A block for at least ``size`` bytes, owned by whoever attaches to its address. OSError if
    there is none."""
    global _writer
    if _writer is None or _writer.pid != os.getpid():
        _writer = _Writer()
    return _writer.block(size)


class _Mapping:
    def __init__(self, address: Address) -> None:
        self.pid = address.pid
        fd = os.open(f"/proc/{address.pid}/fd/{address.fd}", os.O_RDWR | os.O_CLOEXEC)
        try:
            self.map = mmap.mmap(fd, HEADER + address.size)
        finally:
            os.close(fd)
        if self.map[_TOKEN] != address.token:
            raise OSError("the block was replaced")
        self.data = np.frombuffer(self.map, np.uint8, offset=HEADER)

    @property
    def done(self) -> bool:
        """Whether the writer gave the block up, or is gone."""
        return self.map[1] == 1 or not os.path.exists(f"/proc/{self.pid}")


_mappings: dict[bytes, _Mapping] = {}
_lock = threading.Lock()


class Lease:
    """The reader's side: the block is the writer's again when this is released or deleted."""

    def __init__(self, address: Address) -> None:
        self._mapping: _Mapping | None = None
        with _lock:
            mapping = _mappings.get(address.token)
        if mapping is None:
            sweep()
            mapping = _Mapping(address)
            with _lock:
                _mappings[address.token] = mapping
        self._mapping = mapping
        self.data: Any = mapping.data

    def release(self) -> None:
        mapping, self._mapping, self.data = self._mapping, None, None
        if mapping is not None:
            mapping.map[0] = 0

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.release()


def sweep() -> None:
    """Unmap the blocks of writers that are gone."""
    with _lock:
        for token in [token for token, mapping in _mappings.items() if mapping.done]:
            del _mappings[token]


def _after_fork() -> None:
    """A child owns none of this, and the lock may be held by a thread that it does not have."""
    global _lock
    _lock = threading.Lock()
    _mappings.clear()


os.register_at_fork(after_in_child=_after_fork)
