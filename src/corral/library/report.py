"""How far the files of a model are on their way into the library, added up."""

from __future__ import annotations

from dataclasses import dataclass, field

from corral.ports.library import FetchReport


@dataclass(slots=True)
class Sum:
    """The files of one model. What is held already counts as moved; nothing ever goes back."""

    report: FetchReport
    file_count: int
    _moved: dict[str, int] = field(default_factory=dict)
    _sizes: dict[str, int | None] = field(default_factory=dict)

    def expect(self, path: str, size_bytes: int | None) -> None:
        self._sizes[path] = size_bytes

    def moved(self, path: str, current: int, size_bytes: int | None = None) -> None:
        """So much of one file is there. Verifying tells of bytes again that fetching has told of already."""
        if size_bytes is not None:
            self._sizes[path] = size_bytes
        self._moved[path] = max(current, self._moved.get(path, 0))
        known = [size for size in self._sizes.values() if size is not None]
        total = sum(known) if len(known) == self.file_count else None
        self.report.moved(sum(self._moved.values()), total, path)
