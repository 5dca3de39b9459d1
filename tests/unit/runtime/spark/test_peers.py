"""Who takes part in a run: processes of its user that know its secret, in a folder that is the user's alone.

The tests have a second user where they run as root; else they use what belongs to root, or say that they are
somebody else.
"""

from __future__ import annotations

import os
import pickle
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sash.engine.continuous.partitions import CODEC, News
from sash.errors import RunError, SashError, SetupError
from sash.runtime.spark import peers
from sash.runtime.spark.peers import accept, connect, entered, listening, make_folder, meet, receive, send
from sash.runtime.spark.stages import nursery_folder
from sash.runtime.spark.state_server import Run, ask

IS_ROOT = os.geteuid() == 0
NOBODY = 65534
SECRET = "5" * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sockets"
    make_folder(folder)
    return folder


@pytest.fixture
def listener(folder: Path) -> Iterator[socket.socket]:
    with listening(folder / "there") as listener:
        yield listener


def run_of(folder: Path | None, tmp_path: Path, secret: str = SECRET) -> Run:
    return Run(
        "run", 1, tmp_path, tmp_path, tmp_path / "alive", False, os.getpid(), None, folder, folder, secret
    )


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def met(path: Path, secret: str = SECRET) -> socket.socket:
    connection = connect(path)
    assert connection is not None
    try:
        meet(connection, secret)
    except BaseException:
        connection.close()
        raise
    return connection


# ---------------------------------------------------------------- the folder


def somebody_elses(folder: Path) -> Path:
    """A folder that belongs to another user."""
    if not IS_ROOT:
        return Path("/usr")
    os.chown(folder, NOBODY, NOBODY)
    return folder


def linked(folder: Path) -> Path:
    link = folder.with_name("link")
    link.symlink_to(folder)
    return link


def opened(mode: int) -> Callable[[Path], Path]:
    def change(folder: Path) -> Path:
        folder.chmod(mode)
        return folder

    return change


def in_the_way(folder: Path) -> Path:
    path = folder.with_name("file")
    path.touch()
    return path


@pytest.mark.parametrize(
    ("prepared", "got"),
    [
        (somebody_elses, "of the user"),
        (opened(0o755), "mode 755"),
        (opened(0o710), "mode 710"),
        (opened(0o777), "mode 777"),
        (linked, "no folder"),
        (in_the_way, "no folder"),
    ],
    ids=["another user's", "readable", "for the group", "for all", "a link", "a file"],
)
def test_a_folder_that_somebody_else_may_enter_is_refused_by_both_sides(folder, prepared, got):
    place = prepared(folder)
    for meet_there in (listening, connect):
        with pytest.raises(SetupError, match="not safe for the sockets") as caught:
            meet_there(place / "there")
        assert caught.value.id == "socket-folder"
        assert got in str(caught.value.got)
        assert caught.value.hint is not None


def test_a_task_does_not_start_a_holder_in_a_folder_that_somebody_has_prepared(tmp_path, monkeypatch):
    """The name is secret; whoever knew it all the same would be found out."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    run = run_of(None, tmp_path)
    prepared = run.sockets
    assert prepared.stat().st_mode & 0o777 == 0o700
    assert run_of(None, tmp_path, "6" * 64).sockets != prepared
    prepared.rmdir()
    prepared.mkdir(mode=0o777)
    prepared.chmod(0o777)
    with pytest.raises(SetupError) as caught:
        ask(run, 0, None, [], lambda _: b"")  # type: ignore[arg-type]
    assert caught.value.id == "socket-folder"
    assert list(prepared.iterdir()) == []


def test_the_folder_of_the_nursery_has_a_random_name_and_is_the_users_alone():
    folder = nursery_folder()
    assert folder == nursery_folder()
    assert f"{os.getuid()}-{os.getpid()}" not in folder.name
    with entered(folder):
        pass


def test_a_path_of_any_length_will_do(tmp_path):
    folder = tmp_path / ("long" * 30) / ("longer" * 20)
    folder.parent.mkdir()
    make_folder(folder)
    with listening(folder / "there") as listener:
        thread = in_thread(lambda: accept(listener, SECRET).close())
        met(folder / "there").close()
        thread.join(10)


# ---------------------------------------------------------------- the other side


def of_another_user(work: Callable[[], None], where: Path) -> int:
    """Do something in a process of another user."""
    child = os.fork()
    if child == 0:
        try:
            os.chdir(where)
            if IS_ROOT:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            work()
        finally:
            os._exit(0)
    return child


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_another_user_who_got_in_is_left_standing(tmp_path, monkeypatch):
    """The folder is open here, as if its owner had been careless."""
    tmp_path.chmod(0o777)
    raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    raw.bind(str(tmp_path / "there"))
    (tmp_path / "there").chmod(0o777)
    raw.listen()

    def come() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
            stranger.connect("there")
            # He even knows the secret.
            peers._meet(stranger, SECRET, listens=False)

    refused: list[RunError] = []
    original = peers._meet

    def watched(connection: socket.socket, secret: str, *, listens: bool) -> None:
        try:
            original(connection, secret, listens=listens)
        except RunError as failure:
            refused.append(failure)
            raise

    child = of_another_user(come, tmp_path)
    raw.settimeout(2)
    with monkeypatch.context() as patched:
        patched.setattr(peers, "_meet", watched)
        if not IS_ROOT:
            patched.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(TimeoutError):
            accept(raw, SECRET)
    os.waitpid(child, 0)
    raw.close()
    assert [failure.id for failure in refused] == ["socket-peer"]
    assert "of the user" in str(refused[0].got)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_server_of_another_user_is_refused_and_what_it_sends_runs_nothing(tmp_path, monkeypatch):
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)

    def serve() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
            stranger.bind("there")
            os.chmod("there", 0o777)
            stranger.listen()
            connection, _ = stranger.accept()
            with connection:
                connection.sendall(pickle.dumps(Evil(str(tmp_path / "evil"))) * 10)

    child = of_another_user(serve, open_folder)
    monkeypatch.setattr(peers, "entered", unchecked)
    if not IS_ROOT:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    while (connection := connect(open_folder / "there")) is None:
        pass
    with connection, pytest.raises(RunError, match="not of the run") as caught:
        meet(connection, SECRET)
    os.waitpid(child, 0)
    assert caught.value.id == "socket-peer"
    assert "of the user" in str(caught.value.got)
    assert not (tmp_path / "evil").exists()


@contextmanager
def unchecked(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


class Evil:
    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self._path}",)


@pytest.mark.parametrize("secret", ["6" * 64, ""], ids=["another secret", "none"])
def test_who_does_not_know_the_secret_is_left_standing_and_the_next_one_served(folder, listener, secret):
    refused: list[SashError | EOFError] = []

    def come() -> None:
        try:
            met(folder / "there", secret)
        except (SashError, EOFError) as failure:
            refused.append(failure)
        with met(folder / "there") as connection:
            send(connection, CODEC, News(cell="mine"), [b"rows"])

    thread = in_thread(come)
    with accept(listener, SECRET) as connection:
        news, parts = receive(connection, CODEC, News)
    thread.join(10)
    assert len(refused) == 1
    assert (news, [bytes(part) for part in parts]) == (News(cell="mine"), [b"rows"])


def test_a_server_that_does_not_know_the_secret_is_refused(folder, listener, tmp_path):
    """It is of the same user; what it sends is not looked at."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            evil = pickle.dumps(Evil(str(tmp_path / "evil")))
            connection.sendall((evil * 100)[:64])
            connection.recv(64, socket.MSG_WAITALL)

    thread = in_thread(serve)
    with pytest.raises(RunError, match="not of the run") as caught:
        met(folder / "there")
    thread.join(10)
    assert caught.value.id == "socket-peer"
    assert not (tmp_path / "evil").exists()


def test_a_malicious_answer_is_refused_and_runs_nothing(folder, listener, tmp_path):
    """Somebody knows the secret all the same: what he sends is data, or nothing."""
    evil = pickle.dumps(Evil(str(tmp_path / "evil")))
    answers = [
        len(evil).to_bytes(8, "little") + evil,
        (1 << 62).to_bytes(8, "little"),
        (30).to_bytes(8, "little") + b'{"version":1,"sizes":[],"x":1}',
    ]

    def serve() -> None:
        for answer in answers:
            with accept(listener, SECRET) as connection:
                connection.sendall(answer)

    thread = in_thread(serve)
    for _ in answers:
        with met(folder / "there") as connection, pytest.raises(RunError) as caught:
            receive(connection, CODEC, News)
        assert caught.value.id == "message-damaged"
    thread.join(10)
    assert not (tmp_path / "evil").exists()
