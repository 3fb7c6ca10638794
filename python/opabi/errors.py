"""The exceptions of opabi; each is also of the built-in kind that fits, to be caught as either."""

from __future__ import annotations


class OpabiError(Exception):
    """Any failure of opabi; ``rule`` is the id of the broken rule of the standard, or ``""``."""

    rule: str = ""

    def __init__(self, message: str, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule


class OpabiValueError(OpabiError, ValueError):
    """A value, shape, signature or descriptor that cannot be."""


class OpabiTypeError(OpabiError, TypeError):
    """A dtype, rank, layout or kind of object that does not fit; an unknown or missing argument."""


class OpabiIndexError(OpabiError, IndexError):
    """A kernel reported an index out of its range."""


class OpabiRuntimeError(OpabiError, RuntimeError):
    """A kernel, library, compiler or device failed."""


class OpabiMemoryError(OpabiError, MemoryError):
    """A kernel or the host could not get memory."""
