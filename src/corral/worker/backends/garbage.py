"""What takes room below the backends folder and is of no use to anybody."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corral.worker.backends.layout import Layout, size_of
from corral.worker.backends.sources.download import owner_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    path: Path
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    items: tuple[Garbage, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(item.size_bytes for item in self.items)


def collect(
    layout: Layout, keep: frozenset[str], staging: frozenset[Path], busy: frozenset[str], oldest: float
) -> Collected:
    """Folders that no name points to, staging folders without a job, and downloads that nobody has continued since
    `oldest`, in seconds. Downloads of busy backends are in use."""
    paths = [path for path in layout.store.iterdir() if path.name not in keep]
    paths += [path for path in layout.staging.iterdir() if path not in staging]
    paths += list(layout.trash.iterdir())
    for partial in layout.downloads.glob("*.partial"):
        note = partial.with_suffix(".json")
        if partial.stat().st_mtime < oldest and owner_of(note) not in busy:
            paths += [path for path in (partial, note) if path.exists()]
    return Collected(items=tuple(Garbage(path=path, size_bytes=_size(path)) for path in paths))


def _size(path: Path) -> int:
    return size_of(path) if path.is_dir() else path.lstat().st_size
