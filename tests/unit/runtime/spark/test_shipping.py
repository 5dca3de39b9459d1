"""What is sent to executors is the package, all of it and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from sash.runtime.spark.shipping import pack


def test_the_archive_holds_the_package_and_compiled_kernels_only(tmp_path: Path) -> None:
    names = zipfile.ZipFile(pack(tmp_path)).namelist()
    assert {"sash/__init__.py", "sash/py.typed", "sash/runtime/spark/daemon.py"} <= set(names)
    assert all(name.startswith("sash/") for name in names)
    assert not [name for name in names if name.endswith(".pyc")]


def test_what_is_unpacked_can_be_imported_from_there(tmp_path: Path) -> None:
    archive = pack(tmp_path)
    unpacked = tmp_path / archive.stem
    zipfile.ZipFile(archive).extractall(unpacked)
    done = subprocess.run(
        [sys.executable, "-c", "import sash.engine.ingest.first_stage, sash; print(sash.__file__)"],
        env={"PYTHONPATH": str(unpacked)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(unpacked / "sash" / "__init__.py")


def test_the_name_follows_the_sources(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert pack(one).name == pack(two).name
