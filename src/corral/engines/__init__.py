"""What comes with Corral: the built-in galleries and the launchers of engines that have no OpenAI server of their own.

Launchers are programs: they are copied beside an engine and run by its interpreter, so they import nothing of Corral.
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def launcher_file(name: str) -> Path | None:
    """The file of a launcher, or None if there is none of this name."""
    path = _HERE / "launchers" / f"{name}.py"
    return path if name.isidentifier() and not name.startswith("_") and path.is_file() else None


def gallery_files() -> tuple[Path, ...]:
    """The files of the built-in gallery."""
    return tuple(sorted((_HERE / "gallery").glob("*.yaml")))


def model_gallery_files() -> tuple[Path, ...]:
    """The files of the built-in gallery of models."""
    return tuple(sorted((_HERE / "models").glob("*.yaml")))
