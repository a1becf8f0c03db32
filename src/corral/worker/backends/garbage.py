"""What takes room below the backends folder and is of no use to anybody."""

from __future__ import annotations

from pathlib import Path

from corral.transfer.download import files_beside, owner_of
from corral.worker.backends.layout import Layout, size_of
from corral.worker.work import Collected, Garbage


def collect(
    layout: Layout, keep: frozenset[str], used: frozenset[Path], busy: frozenset[str], oldest: float
) -> Collected:
    """Folders that no name points to, staging folders without a job, and downloads that nobody has continued since
    `oldest`, in seconds. Folders in `used` and downloads of busy backends are in use. What goes away meanwhile has
    been thrown away by somebody else."""
    paths = [path for path in layout.store.iterdir() if path.name not in keep]
    paths += [path for path in (*layout.staging.iterdir(), *layout.trash.iterdir()) if path not in used]
    for partial in layout.downloads.glob("*.partial"):
        beside = files_beside(partial)
        if _is_older(partial, oldest) and owner_of(beside[0]) not in busy:
            paths += [path for path in (partial, *beside) if path.exists()]
    found = [
        Garbage(name=path.relative_to(layout.root).as_posix(), path=path, size_bytes=_size(path)) for path in paths
    ]
    return Collected(items=tuple(item for item in found if item.path.exists() or item.path.is_symlink()))


def _is_older(path: Path, oldest: float) -> bool:
    try:
        return path.stat().st_mtime < oldest
    except FileNotFoundError:
        return False


def _size(path: Path) -> int:
    try:
        return size_of(path) if path.is_dir() else path.lstat().st_size
    except FileNotFoundError:
        return 0
