"""The folder of each model: `<safe name>/manifest.json` and `files/…`, links to contents.

    .new/<safe name>    being made; worthless after a restart
    .old/<safe name>    was replaced; put back if its successor is not there

Guarantee: a folder is there as a whole or not at all, and every file in it is a link to a content of the manifest. No
path of a file leads out. Limit: between two renames of a replacement there is no folder, for microseconds; `tidy` mends
what a kill leaves there. All of it runs in threads, one call at a time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from corral.bus.messages import FileItem
from corral.domain.errors import InvalidRequest, NotFound
from corral.transfer.chunks import check_sha256
from corral.transfer.files import PRIVATE_FOLDER
from corral.transfer.inbox import outside
from corral.worker.files.partial import write_note
from corral.worker.work import HeldModel

_MANIFEST = "manifest.json"
_FILES = "files"
# A name in a folder may have 255 bytes; the rest is for the hash.
_NAME_CHARACTERS_MAX = 150
_NO_HARD_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES})
FILES_MAX = 10_000


def safe_name(model: str) -> str:
    """One name for a folder, different for different models; it begins with no dot."""
    if not model or len(model) > 1024 or any(ord(character) < 32 for character in model):
        raise InvalidRequest("This is not the name of a model.", code="bad_model_name")
    name = quote(model, safe="")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _NAME_CHARACTERS_MAX:
        name = f"{name[:_NAME_CHARACTERS_MAX]}-{hashlib.sha256(model.encode()).hexdigest()[:16]}"
    return name


def check_files(files: tuple[FileItem, ...]) -> None:
    """Refuse paths that lead out, that are both file and folder, or that are there twice."""
    if len(files) > FILES_MAX:
        raise InvalidRequest(f"A model may have {FILES_MAX} files.", code="too_many_files")
    sizes: dict[str, int] = {}
    paths: set[PurePosixPath] = set()
    for file in files:
        path = PurePosixPath(file.path)
        has_control = any(ord(character) < 32 for character in file.path)
        if not path.parts or path.is_absolute() or ".." in path.parts or has_control or len(file.path) > 1024:
            raise outside(file.path)
        if check_sha256(file.sha256) != file.sha256 or file.size_bytes < 0:
            raise InvalidRequest(f"{file.path!r} has no proper sha256 or size.", code="bad_sha256")
        if sizes.setdefault(file.sha256, file.size_bytes) != file.size_bytes:
            raise InvalidRequest(f"{file.path!r} has two sizes.", code="bad_size")
        if path in paths:
            raise InvalidRequest(f"{file.path!r} is there twice.", code="bad_file_name")
        paths.add(path)
    for path in paths:
        if not paths.isdisjoint(path.parents):
            raise InvalidRequest(f"A folder of {str(path)!r} is also a file.", code="bad_file_name")


class ModelFolders:
    def __init__(self, root: Path, blob_path: Callable[[str], Path]) -> None:
        self._root = root
        self._blob_path = blob_path
        self._models: dict[str, HeldModel] = {}

    @property
    def models(self) -> dict[str, HeldModel]:
        """By name, since `tidy`."""
        return self._models

    def used(self) -> set[str]:
        """The contents that models are made of."""
        return {file.sha256 for model in self._models.values() for file in model.files}

    def tidy(self) -> None:
        """After a start: finish or undo what a kill left half done, and read what is there."""
        new, old = self._root / ".new", self._root / ".old"
        for folder in (self._root, new, old):
            folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        for folder in list(old.iterdir()):
            place = self._root / folder.name
            if place.exists() or _read(folder) is None:
                _remove(folder)
            else:
                folder.rename(place)
        for folder in list(new.iterdir()):
            _remove(folder)
        found = (_read(folder) for folder in sorted(self._root.iterdir()) if not folder.name.startswith("."))
        self._models = {model.name: model for model in found if model is not None}

    def folder(self, model: str) -> Path:
        """Where its files are, if it has any."""
        return self._root / safe_name(model) / _FILES

    def path_of(self, model: str, entry: str) -> Path:
        """One file or folder of a model; the folder of all files without an entry."""
        if ".." in PurePosixPath(entry).parts or PurePosixPath(entry).is_absolute():
            raise outside(entry)
        path = self.folder(model) / entry
        if not path.exists():
            raise NotFound(f"{model} has no file {entry!r} here.", code="file_not_found")
        return path

    def is_in_place(self, wanted: HeldModel) -> bool:
        """Whether the folder is just this, with links to the contents that are here now."""
        if self._models.get(wanted.name) != wanted:
            return False
        folder = self.folder(wanted.name)
        return folder.is_dir() and all(self._is_link(folder / file.path, file.sha256) for file in wanted.files)

    def put(self, wanted: HeldModel) -> Path:
        """Make the folder anew and put it in place of what was there."""
        check_files(wanted.files)
        name = safe_name(wanted.name)
        place, new, old = self._root / name, self._root / ".new" / name, self._root / ".old" / name
        if place.is_symlink():
            raise outside(wanted.name)
        _remove(new)
        self._fill(new, wanted)
        if place.exists():
            _remove(old)
            place.rename(old)
        new.rename(place)
        _remove(old)
        self._models[wanted.name] = wanted
        return place / _FILES

    def delete(self, model: str) -> HeldModel | None:
        """What was there; contents stay."""
        place = self._root / safe_name(model)
        held = self._models.pop(model, None) or _read(place)
        _remove(place)
        return held

    def _fill(self, folder: Path, wanted: HeldModel) -> None:
        (folder / _FILES).mkdir(parents=True, mode=PRIVATE_FOLDER)
        for file in wanted.files:
            path = folder / _FILES / file.path
            path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
            link(self._blob_path(file.sha256), path)
        document = {
            "model": wanted.name,
            "revision": wanted.revision,
            "files": [{"path": each.path, "sha256": each.sha256, "size": each.size_bytes} for each in wanted.files],
        }
        # Last: a folder without it is worth nothing. After a power cut it may be lost, and is made anew.
        write_note(folder / _MANIFEST, document)

    def _is_link(self, path: Path, sha256: str) -> bool:
        try:
            return path.samefile(self._blob_path(sha256))
        except OSError:
            return False


def link(source: Path, path: Path) -> None:
    """A hard link, or a symbolic one where the file system has no other."""
    try:
        # Of a link, the file that it leads to.
        os.link(source.resolve(strict=True), path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINK:
            raise
        path.symlink_to(source.absolute())


def _read(folder: Path) -> HeldModel | None:
    try:
        document = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        files = tuple(
            FileItem(path=str(each["path"]), sha256=str(each["sha256"]), size_bytes=int(each["size"]))
            for each in document["files"]
        )
        model = HeldModel(name=str(document["model"]), revision=str(document["revision"]), files=files)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return model if safe_name(model.name) == folder.name else None


def _remove(path: Path) -> None:
    """A folder with its links, or a link; never what links lead to."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    with contextlib.suppress(FileNotFoundError):
        assert shutil.rmtree.avoids_symlink_attacks, "this system cannot remove a folder safely"
        shutil.rmtree(path)
