"""Sash itself, sent to the executors of a cluster, which then need only what it depends on.

The package travels as an archive that Spark unpacks in the work folder of each executor, and that folder's
name, relative, is on the Python path of the workers: a daemon is started there and after the archive has
come. Unpacked and not as a zip, because numba keeps compiled kernels beside the source; they are
compiled once an executor, and not at all where the driver has them already (numba looks whether they
are for the same source and processor).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext, SparkFiles

from sash.runtime.spark.failures import turned_away

# Compiled kernels, see `state/jit.py`. Everything else in a __pycache__ is for this machine only.
_KERNELS = (".nbi", ".nbc")


@contextmanager
def shipped(context: SparkContext, master: str) -> Iterator[None]:
    """Within the block executors have the package, later ones too: Spark sends it from a file here."""
    with tempfile.TemporaryDirectory(prefix="sash-package-") as folder:
        archive = pack(Path(folder))
        name = archive.stem
        try:
            context.addArchive(f"{archive}#{name}")
            unpacked_here = SparkFiles.get(name)
        except Py4JError as failure:
            # The first calls after the start: a cluster that does not want us has ended the context by now.
            raise turned_away(master) from failure
        # The second is for processes of the driver, which plan the batches. The user's own path comes last.
        paths = [name, unpacked_here, context.environment.get("PYTHONPATH", "")]
        context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        yield


def pack(folder: Path) -> Path:
    """The package as a zip in `folder`, named after its sources: kernels may be compiled at any time."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    unnamed = folder / "package.zip"
    with zipfile.ZipFile(unnamed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(root):
            name, content = str(Path("sash") / path.relative_to(root)), path.read_bytes()
            if path.suffix not in _KERNELS:
                digest.update(name.encode() + b"\0" + content)
            archive.writestr(name, content)
    return unnamed.rename(folder / f"sash-{digest.hexdigest()[:12]}.zip")


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and (path.parent.name != "__pycache__" or path.suffix in _KERNELS):
            yield path
