"""What the disk's refusals mean in plain words, and what there is to do about them."""

from __future__ import annotations

import errno

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is as large as files may be here",
    errno.EROFS: "the file system can only be read",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENOENT: "there is no such file or directory",
    errno.ENOTDIR: "part of the path is not a directory",
    errno.EISDIR: "it is a directory",
    errno.EIO: "the disk reports an error",
    errno.EMFILE: "too many files are open in this process",
    errno.ENFILE: "too many files are open on this machine",
    errno.ENAMETOOLONG: "the name is too long",
}


def reason(failure: OSError) -> str:
    """Why the disk refused."""
    known = _REASONS.get(failure.errno) if failure.errno is not None else None
    return known or failure.strerror or str(failure)


def remedy(failure: OSError) -> str:
    """What to do before the run is started again."""
    if failure.errno in _FULL:
        return "make room on the disk"
    if failure.errno in _FORBIDDEN:
        return "check the permissions of the path"
    if failure.errno in _GONE:
        return "put back what was moved or removed"
    if failure.errno == errno.EFBIG:
        return "raise the limit for files (ulimit -f)"
    if failure.errno in (errno.EMFILE, errno.ENFILE):
        return "raise the limit for open files (ulimit -n)"
    return "check the path and the disk"
