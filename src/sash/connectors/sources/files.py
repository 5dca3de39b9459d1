"""Sources made of files: which ones there are, in which order, and how far reading has come.

Bounded (a file, a glob, a directory): the files sorted by path. Their list is taken once. A new process
takes it anew and refuses to go on if files that should have been read came or went, because the rows
would no longer be those of the first run.

Watched (a directory with `watch = true`): files in the order of their discovery. Every plan lists the
directory; the files not seen before are taken by (modification time, name). A file is known by its
name, not by being newer than the last one: a file that is moved in with an old modification time is
therefore read all the same, in its turn of discovery. The position holds fourteen bytes for each file that
is done and still in the directory (a hash of its name and one of its size), so it shrinks when old files
are removed, and a file that grew after it was read is an error rather than a loss. An empty file waits
until it has something in it.

Cost: one directory listing a plan when watching, one in all when bounded.
"""

from __future__ import annotations

import base64
import difflib
import glob
import hashlib
import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sash.connectors.sources.base import Source
from sash.connectors.sources.chunk import DEFAULT_TARGET_ROWS, Chunk, Plan, Position
from sash.connectors.sources.options import Options
from sash.disk import reason, remedy
from sash.errors import SourceError
from sash.files import local_place
from sash.lang.bound import StreamDefinition

_NAME_BYTES, _SIZE_BYTES = 10, 4
# Compressed text has no rows to count without reading it; this many bytes are taken for one row.
GZIP_BYTES_A_ROW = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one file, as a format plans it: see Chunk for the fields."""

    first_row: int
    rows: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What a format made of a file: pieces, where to go on, whether the file is done."""

    pieces: tuple[Piece, ...]
    offset: int
    row: int
    done: bool


@dataclass(slots=True)
class _Cursor:
    """A position, unpacked. `file` is the one being read ('' for none), by its name in the listing."""

    sequence: int = 0
    file: str = ""
    offset: int = 0
    row: int = 0
    files_done: int = 0
    listing: str = ""
    done: dict[bytes, bytes] = field(default_factory=dict)

    @classmethod
    def unpack(cls, position: Position) -> _Cursor:
        packed = base64.b64decode(position.get("done", ""))
        step = _NAME_BYTES + _SIZE_BYTES
        entries = (packed[i : i + step] for i in range(0, len(packed), step))
        done = {entry[:_NAME_BYTES]: entry[_NAME_BYTES:] for entry in entries}
        return cls(
            position.get("sequence", 0),
            position.get("file", ""),
            position.get("offset", 0),
            position.get("row", 0),
            position.get("files_done", 0),
            position.get("listing", ""),
            done,
        )

    def pack(self, watch: bool) -> Position:
        position: Position = {
            "sequence": self.sequence,
            "file": self.file,
            "offset": self.offset,
            "row": self.row,
            "files_done": self.files_done,
        }
        if watch:
            packed = b"".join(name + size for name, size in sorted(self.done.items()))
            position["done"] = base64.b64encode(packed).decode()
        else:
            position["listing"] = self.listing
        return position


def _name_hash(name: str) -> bytes:
    return hashlib.blake2b(os.fsencode(name), digest_size=_NAME_BYTES).digest()


def _size_hash(size: int) -> bytes:
    return hashlib.blake2b(str(size).encode(), digest_size=_SIZE_BYTES).digest()


def _is_ignored(name: str) -> bool:
    return name.startswith((".", "_")) or name.endswith(".tmp")


def column_place(name: str, there: Sequence[str], path: str) -> int | None:
    """Which of the columns of a file is the column `name` of a stream; None: there is none.

    That of the same spelling; else, unless `name` has capitals (it was quoted then, and is meant as it is
    written), the one that differs in case alone, which must be the only one.
    """
    places = [place for place, column in enumerate(there) if column == name]
    if not places and name == name.lower():
        places = [place for place, column in enumerate(there) if column.lower() == name]
    if len(places) > 1:
        alike = ", ".join(f"'{there[place]}'" for place in places)
        same = len({there[place] for place in places}) == 1
        raise SourceError(
            f"'{path}' has {'two columns' if len(places) == 2 else 'several columns'} '{name}'",
            expected="one column of that name",
            got=alike,
            hint=None
            if same
            else f'write the one that is meant in double quotes, such as "{there[places[0]]}"',
        )
    return places[0] if places else None


def column_places(
    stream: StreamDefinition, there: Sequence[str], path: str, hint: str | None = None
) -> list[int]:
    """Which columns of a file are those of the stream, in its order; an error lists what there is."""
    found = []
    for column in stream.schema:
        place = column_place(column.name, there, path)
        if place is None:
            raise SourceError(
                f"'{path}' has no column '{column.name}'",
                expected=f"the columns {', '.join(stream.schema.names)}",
                got=", ".join(name if name.isprintable() else repr(name) for name in there) or "no columns",
                hint=_close(column.name, there) or hint,
            )
        found.append(place)
    return found


def _close(name: str, there: Sequence[str]) -> str | None:
    lower = [column.lower() for column in there]
    if name.lower() in lower:
        return "a name in double quotes must be spelled as in the file, with its capitals"
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    return f"did you mean '{there[lower.index(close[0])]}'?" if close else None


class FileSource(Source):
    """Files of one format. Formats say how a file is checked and cut."""

    endings: tuple[str, ...] = ()
    own_options: tuple[str, ...] = ()
    format_name = "this format"

    def __init__(self, stream: StreamDefinition, rest: str, base_dir: Path) -> None:
        super().__init__(stream)
        self.options = Options.of(stream)
        self.given = rest
        self.base_dir = base_dir
        # A source without a path is refused when its definition is checked.
        path = local_place(rest, stream.source) if rest else ""
        self.target = os.path.join(base_dir, os.path.expanduser(path))
        self.options.check_names((*self.own_options, "watch"), self.format_name)
        self.watch = self.options.boolean("watch", False)
        self._listing: list[str] | None = None

    @property
    def bounded(self) -> bool:
        return not self.watch

    @abstractmethod
    def check_file(self, path: str) -> None:
        """Raise SourceError unless the file's head fits the schema."""

    @abstractmethod
    def plan_file(self, path: str, offset: int, row: int, budget: int, target_rows: int) -> FilePlan:
        """Cut the file from (offset, row) on into pieces of at most `budget` rows in all."""

    def check_definition(self) -> None:
        if not self.given:
            raise self.error(f"'{self.format_name}:' names no file", expected=f"'{self.format_name}:path'")
        super().check_definition()

    def check(self) -> None:
        self.check_definition()
        if self.watch:
            if not os.path.isdir(self.target):
                raise self.error(
                    f"cannot watch '{self.given}'",
                    expected="a directory",
                    got="a file" if os.path.exists(self.target) else "nothing there",
                    hint="make the directory first, or leave out watch = true to read files once",
                )
            paths = [os.path.join(self.target, name) for name, _ in self._listed()]
        else:
            paths = [self._path(name) for name in self._names()]
        for path in paths:
            if not os.access(path, os.R_OK):
                raise self.error(f"cannot read '{path}'", hint="check the permissions of the file")
            self.check_file(path)

    def plan(self, position: Position, max_rows: int, target_rows: int = DEFAULT_TARGET_ROWS) -> Plan:
        cursor = _Cursor.unpack(position)
        budget = max(1, max_rows)
        chunks: list[Chunk] = []
        ended = True
        for name in self._remaining(cursor):
            if budget <= 0:
                ended = False
                break
            if name != cursor.file:
                cursor.file, cursor.offset, cursor.row = name, 0, 0
            path = self._path(name)
            planned = self._plan_file(path, cursor, budget, max(1, target_rows))
            for piece in planned.pieces:
                place = (piece.first_row, piece.rows, piece.begin, piece.end)
                chunks.append(Chunk(self.stream.name, cursor.sequence, path, *place))
                cursor.sequence += 1
                budget -= piece.rows if piece.rows >= 0 else 1 + (piece.end - piece.begin) // GZIP_BYTES_A_ROW
            cursor.offset, cursor.row = planned.offset, planned.row
            if planned.done:
                self._finish(cursor, name, path)
            else:
                ended = False
                break
        return Plan(tuple(chunks), cursor.pack(self.watch), ended and not self.watch)

    def progress(self, position: Position) -> float | None:
        if self.watch:
            return None
        cursor = _Cursor.unpack(position)
        total = passed = 0
        for number, name in enumerate(self._names()):
            path = self._path(name)
            size = max(1, self._size(path))
            total += size
            if number < cursor.files_done:
                passed += size
            elif name == cursor.file:
                passed += int(size * self.share_of_file(path, cursor.offset, cursor.row))
        return passed / total if total else 1.0

    def reads(self, place: str) -> bool:
        if self.watch:
            watched = os.path.realpath(self.target)
            return place == watched or (
                os.path.dirname(place) == watched and place.lower().endswith(self.endings)
            )
        return any(place == os.path.realpath(self._path(name)) for name in self._names())

    def share_of_file(self, path: str, offset: int, row: int) -> float:
        return min(1.0, offset / max(1, self._size(path)))

    def _plan_file(self, path: str, cursor: _Cursor, budget: int, target_rows: int) -> FilePlan:
        try:
            return self.plan_file(path, cursor.offset, cursor.row, budget, target_rows)
        except OSError as failure:
            raise self.error(
                f"cannot read '{path}'",
                got=reason(failure),
                hint=f"{remedy(failure)}, then start again: with --checkpoint the run goes on where it was",
            ) from failure

    def _finish(self, cursor: _Cursor, name: str, path: str) -> None:
        cursor.files_done += 1
        cursor.file, cursor.offset, cursor.row = "", 0, 0
        if self.watch:
            cursor.done[_name_hash(name)] = _size_hash(self._size(path))

    def _size(self, path: str) -> int:
        try:
            return os.path.getsize(path)
        except OSError as failure:
            raise self.error(
                f"'{path}' went away while it was being read",
                hint="put it back, then start again; keep input files until the run is over",
            ) from failure

    def _path(self, name: str) -> str:
        return os.path.join(self.target if self.watch else self.base_dir, name)

    def _remaining(self, cursor: _Cursor) -> Iterator[str]:
        """Files still to be read, the current one first."""
        if self.watch:
            yield from self._discovered(cursor)
            return
        names = self._names()
        listing = _name_hash("\0".join(names)).hex()
        if cursor.listing not in ("", listing):
            raise self._changed(cursor.file or self.given)
        cursor.listing = listing
        if cursor.file:
            expected = names[cursor.files_done] if cursor.files_done < len(names) else None
            if expected != cursor.file:
                raise self._changed(cursor.file)
        elif cursor.files_done > len(names):
            raise self._changed(self.given)
        yield from names[cursor.files_done :]

    def _changed(self, where: str) -> Exception:
        return self.error(
            f"the files of '{self.given}' are not those that the run began with (at '{where}')",
            expected="the same files in the same order until the run is over",
            hint="put the files back, or start anew; for files that keep coming use WITH (watch = true)",
        )

    def _names(self) -> list[str]:
        """The files of a bounded source, relative to the base directory where they lie under it."""
        if self._listing is None:
            self._listing = [self._relative(path) for path in self._paths()]
        return self._listing

    def _relative(self, path: str) -> str:
        base = os.path.join(self.base_dir, "")
        return path[len(base) :] if path.startswith(base) else path

    def _paths(self) -> list[str]:
        if os.path.isfile(self.target):
            return [self.target]
        if os.path.isdir(self.target):
            try:
                names = [name for name in os.listdir(self.target) if name.lower().endswith(self.endings)]
            except OSError as failure:
                raise self._unlisted(failure) from failure
            found = [os.path.join(self.target, name) for name in names if not _is_ignored(name)]
            missing = f"the directory holds no file that ends in {' or '.join(self.endings)}"
        elif glob.has_magic(self.target):
            matches = glob.glob(self.target, recursive=True)
            found = [path for path in matches if not _is_ignored(os.path.basename(path))]
            missing = "the pattern matches no file"
        else:
            exists = os.path.exists(self.target)
            found, missing = [], "neither a file nor a directory" if exists else "there is no such file"
        paths = sorted(path for path in found if os.path.isfile(path))
        if not paths:
            raise self.error(
                f"'{self.given}': {missing}",
                got=self.target,
                hint="relative paths are looked up beside the program that names them",
            )
        return paths

    def _listed(self) -> list[tuple[str, os.stat_result]]:
        """Files of a watched directory that are ready to be read."""
        listed = []
        try:
            with os.scandir(self.target) as entries:
                for entry in entries:
                    if _is_ignored(entry.name) or not entry.name.lower().endswith(self.endings):
                        continue
                    # A file may be moved away while the directory is listed.
                    with suppress(FileNotFoundError):
                        if entry.is_file() and (status := entry.stat()).st_size > 0:
                            listed.append((entry.name, status))
        except FileNotFoundError as failure:
            raise self.error(
                f"the watched directory '{self.given}' went away",
                got=self.target,
                hint="put it back, then start again: with --checkpoint the run goes on where it was",
            ) from failure
        except OSError as failure:
            raise self._unlisted(failure) from failure
        return listed

    def _unlisted(self, failure: OSError) -> Exception:
        return self.error(
            f"cannot list the directory '{self.given}'", got=reason(failure), hint=remedy(failure)
        )

    def _discovered(self, cursor: _Cursor) -> list[str]:
        listed = self._listed()
        present: dict[bytes, bytes] = {}
        fresh: list[tuple[int, str]] = []
        for name, status in listed:
            key = _name_hash(name)
            if key not in cursor.done:
                if name != cursor.file:
                    fresh.append((status.st_mtime_ns, name))
                continue
            present[key] = cursor.done[key]
            if present[key] != _size_hash(status.st_size):
                raise self.error(
                    f"'{name}' changed after it was read",
                    expected="files that are complete when they appear, under names never used before",
                    hint="write under a name that ends in .tmp or begins with a dot, then rename",
                )
        cursor.done = present
        current = [cursor.file] if cursor.file else []
        return current + [name for _, name in sorted(fresh)]
