"""Removes the files of a model that somebody has put into the models folder, and nothing that lies outside it.

A name that leads out of it, by `..`, from the root or over a link, is refused before anything is touched. Links inside
a model are removed as links; what they point to stays. Nothing to remove is no error: the second call finds the first
one's work done.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from corral.bus.messages import ModelDeleted
from corral.domain.errors import CorralError, InvalidRequest, NotAllowed

# No file system of ours takes a longer path.
MAX_NAME = 1024
# These folders hold contents and the models that are made of them (`worker/files`), and are no models.
_OWN = ("blobs", "models")


def delete_model(models_dir: Path, model: str) -> ModelDeleted:
    """The folder of that name, or the file and what is called like it and then `.something`."""
    path = _inside(models_dir, model)
    if path.relative_to(models_dir.resolve()).parts[0] in _OWN:
        return ModelDeleted(model=model)
    files = freed_bytes = 0
    try:
        for found in list(_belongings(path)):
            count, size_bytes = _measure(found)
            _remove(found)
            files, freed_bytes = files + count, freed_bytes + size_bytes
    except OSError as error:
        raise CorralError(
            f"The files of {model} could not be removed: {error.strerror}.",
            hint=f"{files} were removed before that.",
            code="model_not_deleted",
        ) from error
    return ModelDeleted(model=model, files=files, freed_bytes=freed_bytes)


def _inside(models_dir: Path, model: str) -> Path:
    if not model or len(model) > MAX_NAME or any(ord(character) < 32 for character in model):
        raise InvalidRequest("This is not the name of a model.", code="bad_model_name")
    parts = PurePosixPath(model).parts
    if not parts or ".." in parts or PurePosixPath(model).is_absolute():
        raise _outside(model)
    try:
        root = models_dir.resolve()
        path = root.joinpath(*parts)
        real = path.resolve()
    except (OSError, RuntimeError) as error:
        # A link that leads back to itself leads nowhere.
        raise _outside(model) from error
    if root not in real.parents or root not in (path.parent.resolve(), *path.parent.resolve().parents):
        raise _outside(model)
    return path.parent.resolve() / path.name


def _outside(model: str) -> NotAllowed:
    return NotAllowed(
        f"{model[:MAX_NAME]!r} does not lie in the models folder.",
        hint="Name the model as it is called below that folder.",
        code="outside_models",
    )


def _belongings(path: Path) -> Iterator[Path]:
    if path.is_dir() and not path.is_symlink():
        yield path
        return
    if path.is_symlink() or path.exists():
        yield path
    if path.parent.is_dir():
        siblings = sorted(path.parent.iterdir(), key=lambda other: other.name)
        yield from (
            other
            for other in siblings
            if other.name.startswith(f"{path.name}.") and (other.is_symlink() or other.is_file())
        )


def _measure(path: Path) -> tuple[int, int]:
    """How many files, and how many bytes they have."""
    if path.is_symlink() or not path.is_dir():
        return 1, path.lstat().st_size
    sizes = [
        (Path(folder) / name).lstat().st_size for folder, _, names in os.walk(path, onerror=_raise) for name in names
    ]
    return len(sizes), sum(sizes)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        # It never follows a link, also not one that is put there meanwhile.
        assert shutil.rmtree.avoids_symlink_attacks, "this system cannot remove a folder safely"
        shutil.rmtree(path)
        return
    path.unlink()


def _raise(error: OSError) -> None:
    if error.errno != errno.ENOENT:
        raise error
