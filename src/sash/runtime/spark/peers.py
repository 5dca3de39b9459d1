"""Sockets between processes of one user on one machine, which nobody else can stand in for.

They lie in a folder that only the user has access to: each side looks at the folder itself, not at its name,
before it meets anybody there. Then both look at the user of the other (where the system tells), and show
each other that they know the secret of the run, which travels with Spark's tasks and is never sent here.

What is exchanged is data (`codec.py`): nothing that is read can have anything run.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sash.engine.durability.codec import Codec
from sash.engine.durability.wire import header_of, pack, unreadable
from sash.errors import RunError, SetupError

_WORD = 8
_NONCE = 32
# A header is small, whatever it describes: rows are beside it.
_MOST = 1 << 30
# How long who connects may take to show that he knows the secret, in seconds.
_PATIENCE = 20.0
_HERE = Path("/proc/self/fd")


def new_secret() -> str:
    return secrets.token_hex(32)


def secret_name(secret: str) -> str:
    """A name that nobody knows who does not know the secret."""
    return hmac.digest(secret.encode(), b"folder", "sha256").hex()[:24]


def make_folder(path: Path) -> None:
    """Make a folder for sockets, unless it is there."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)


@contextmanager
def entered(folder: Path) -> Iterator[int]:
    """An open folder for sockets, of which it is sure that nobody else has access to it."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError as failure:
        # A symbolic link, for one.
        raise _strange(folder, "something that is no folder") from failure
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            raise _strange(folder, f"a folder of the user {found.st_uid}")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise _strange(folder, f"a folder with the mode {stat.S_IMODE(found.st_mode):o}")
        yield handle
    finally:
        os.close(handle)


def _strange(folder: Path, got: str) -> SetupError:
    return SetupError(
        f"'{folder}' is not safe for the sockets of the run",
        expected=f"a folder of the user {os.geteuid()} that nobody else has access to (mode 700)",
        got=got,
        hint="somebody else may have made it: remove it, or set TMPDIR to a folder of your own",
        id="socket-folder",
    )


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Where a socket is, in the very folder that was looked at; of any length, where the system can."""
    with entered(path.parent) as folder:
        yield f"{_HERE}/{folder}/{path.name}" if _HERE.is_dir() else str(path)


def listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(path) as address:
            listener.bind(address)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def connect(path: Path) -> socket.socket | None:
    """A connection to who listens there, with whom to `meet`; None if nobody does."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(path) as address:
            connection.connect(address)
    except BaseException as failure:
        connection.close()
        if isinstance(failure, OSError):
            return None
        raise
    return connection


def meet(connection: socket.socket, secret: str) -> None:
    """Make sure of who listens; it may take a while until he has time."""
    _meet(connection, secret, listens=False)


def accept(listener: socket.socket, secret: str) -> socket.socket:
    """The next one who connects and knows the secret. Others are left standing."""
    while True:
        connection, _ = listener.accept()
        try:
            _meet(connection, secret, listens=True)
        except (OSError, EOFError, RunError):
            connection.close()
            continue
        return connection


def _meet(connection: socket.socket, secret: str, *, listens: bool) -> None:
    """Make sure of the other side, as it does of this one."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        _, user, _ = struct.unpack("3i", credentials)
        if user != os.geteuid():
            raise _stranger(f"a process of the user {user}")
    connection.settimeout(_PATIENCE if listens else None)
    own, key = secrets.token_bytes(_NONCE), secret.encode()
    connection.sendall(own)
    other = bytes(_read(connection, _NONCE))
    nonces = own + other if listens else other + own
    shown = {role: hmac.digest(key, role + nonces, "sha256") for role in (b"listens", b"connects")}
    if listens:
        # Who connects has to show it first.
        _expect(connection, shown[b"connects"])
        connection.sendall(shown[b"listens"])
    else:
        connection.sendall(shown[b"connects"])
        _expect(connection, shown[b"listens"])
    connection.settimeout(None)


def _expect(connection: socket.socket, proof: bytes) -> None:
    if not hmac.compare_digest(bytes(_read(connection, len(proof))), proof):
        raise _stranger("a process that does not know the secret of the run")


def _stranger(got: str) -> RunError:
    return RunError(
        "a socket of the run leads to a process that is not of the run",
        got=got,
        hint="somebody else may use this machine: start again, with TMPDIR set to a folder of your own",
        id="socket-peer",
    )


# ---------------------------------------------------------------- frames


def send(connection: socket.socket, codec: Codec, value: object, payloads: Sequence[Any] = ()) -> None:
    """A value, and bytes that go with it."""
    header, parts = codec.frame(value)
    for content in pack({**header, "own": len(parts)}, [*parts, *payloads]):
        connection.sendall(content)


def receive(connection: socket.socket, codec: Codec, *expected: type) -> tuple[Any, list[memoryview]]:
    """The value and the bytes that were sent; RunError if it is something else."""
    size = int.from_bytes(_read(connection, _WORD), "little")
    if size > _MOST:
        raise unreadable(f"a header of {size:,} bytes")
    header, sizes = header_of(_read(connection, size))
    parts = [_read(connection, length) for length in sizes]
    own = header.get("own")
    if not isinstance(own, int) or not 0 <= own <= len(parts):
        raise unreadable("no number of parts")
    return codec.value(header, parts[:own], *expected), parts[own:]


def _read(connection: socket.socket, size: int) -> memoryview:
    content = memoryview(bytearray(size))
    at = 0
    while at < size:
        count = connection.recv_into(content[at:])
        if not count:
            raise EOFError("the connection was closed")
        at += count
    return content
