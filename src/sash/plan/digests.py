"""A canonical text of what plans are made of, and digests of it: the same in every process.

Whatever is written into files or shown, and has to be found again by another process, is named by such a
digest. Python's `hash` differs from process to process, and so does the order of sets.

Definitions are written with the fields by which they are compared, in the order in which they are declared;
sets and mappings in the order of the texts of their elements.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from functools import cache

from sash.errors import InternalError

# Bytes of a digest: among a million names the chance of any collision is below 2⁻²⁴.
_SIZE = 8


def digest(value: object) -> str:
    """A name for a value that equal values have in every process, and different ones do not share."""
    return hashlib.blake2b(canonical_text(value).encode(), digest_size=_SIZE).hexdigest()


def canonical_text(value: object) -> str:
    """The text of a value: of plain ones, definitions, and sequences, sets and mappings of those."""
    match value:
        # Before numbers: some enumerations are numbers, too.
        case enum.Enum():
            return f"{type(value).__name__}.{value.name}"
        case None | bool() | int() | float() | str():
            return repr(value)
        case Mapping():
            items = sorted(f"{canonical_text(key)}: {canonical_text(each)}" for key, each in value.items())
            return f"{{{', '.join(items)}}}"
        case Set():
            return f"{{{', '.join(sorted(canonical_text(each) for each in value))}}}"
        case Sequence():
            return f"[{', '.join(canonical_text(each) for each in value)}]"
    if is_dataclass(value) and not isinstance(value, type):
        own = (f"{name}={canonical_text(getattr(value, name))}" for name in _compared(type(value)))
        return f"{type(value).__name__}({', '.join(own)})"
    raise InternalError(f"no canonical text for {type(value).__qualname__}")


@cache
def _compared(kind: type) -> tuple[str, ...]:
    """The fields by which values of a class are compared."""
    return tuple(field.name for field in fields(kind) if field.compare)
