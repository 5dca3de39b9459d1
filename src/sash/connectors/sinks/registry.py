"""Schemes: which sink a query's `INTO 'scheme:rest'` means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from sash.connectors.sinks.base import Sink
from sash.connectors.sinks.console import ConsoleSink, NoopSink
from sash.connectors.sinks.csv_file import CsvSink
from sash.connectors.sinks.jsonl import JsonLinesSink
from sash.connectors.sinks.parquet_parts import ParquetSink
from sash.errors import SinkError
from sash.files import local_place

FILES: dict[str, Callable[[str, pa.Schema, Path], Sink]] = {
    "csv": CsvSink,
    "jsonl": JsonLinesSink,
    "parquet": ParquetSink,
}
LINES = ("csv", "jsonl")
SCHEMES = ("console", "csv", "jsonl", "noop", "parquet")


def open_sink(uri: str, schema: pa.Schema, base_dir: Path, console: TextIO | None = None) -> Sink:
    """The sink of a query, not yet opened. Relative paths count from `base_dir`.

    `console` is where `console:` prints; the standard output of the moment where it is None.
    """
    scheme, colon, rest = uri.partition(":")
    scheme, rest = scheme.strip().lower(), rest.strip()
    if not colon or scheme not in SCHEMES:
        raise SinkError(
            f"unknown sink '{uri}'",
            expected=f"'scheme:path' with one of the schemes {', '.join(SCHEMES)}",
            hint=f"for a file write 'jsonl:{uri}'" if not colon else None,
        )
    if scheme == "console":
        return ConsoleSink(uri, schema, console)
    if scheme == "noop":
        return NoopSink(uri, schema)
    if not rest:
        raise SinkError(f"'{uri}' names no file", expected=f"'{scheme}:path'")
    return FILES[scheme](uri, schema, base_dir.absolute() / Path(local_place(rest, uri)).expanduser())
