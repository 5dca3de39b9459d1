"""Reading the CQL program that a command names: a file, or `-` for what is typed or piped in."""

from __future__ import annotations

import sys
from pathlib import Path

from sash.errors import UserError
from sash.files import local_place
from sash.standard_streams import was_closed

# Some editors put a byte order mark in front of UTF-8.
_MARK = "\ufeff"


def read_program(file: str) -> tuple[str, Path]:
    """The text, and the folder that its relative paths start from: that of the file."""
    if file == "-":
        if was_closed(0):
            raise UserError("standard input is not open", id="file", expected="a CQL program")
        return sys.stdin.read().removeprefix(_MARK), Path.cwd()
    path = Path(local_place(file, "FILE.cql"))
    try:
        return path.read_text(encoding="utf-8").removeprefix(_MARK), path.resolve().parent
    except FileNotFoundError:
        raise UserError(
            f"there is no file '{file}'",
            id="file",
            hint="give the path of a CQL program, or - to read it from standard input",
        ) from None
    except IsADirectoryError:
        raise UserError(f"'{file}' is a folder", id="file", expected="a CQL program") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"'{file}' is not UTF-8 text",
            id="file",
            got=f"byte {error.object[error.start]:#04x} at offset {error.start}",
            hint="save the program as UTF-8",
        ) from None
    except OSError as error:
        raise UserError(f"cannot read '{file}': {error.strerror or error}", id="file") from None
