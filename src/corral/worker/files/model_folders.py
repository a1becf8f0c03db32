"""Makes the folder of each model (`<safe name>/manifest.json` and `files/…`, links to contents), and deletes models.

    .new/<safe name>    being made; worthless after a restart
    .old/<safe name>    was replaced; put back if its successor is missing

Guarantee: a folder is there as a whole or not at all, and every file in it is a link to a content of the manifest. No
path of a file leads out. Limit: between two renames of a replacement there is no folder, for microseconds; `tidy`
repairs what a kill leaves there. All functions run in threads, one call at a time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from corral.bus.messages import DeleteModelReply, ModelFileItem
from corral.domain.errors import CorralError, InvalidRequest, NotAllowed, NotFound
from corral.transfer.chunks import check_sha256
from corral.transfer.files import PRIVATE_FOLDER
from corral.transfer.inbox import make_outside_error
from corral.worker.files.partial_content import write_note
from corral.worker.job_ports import HeldModel

_MANIFEST = "manifest.json"
_FILES = "files"
# A name in a folder may have 255 bytes; the rest is for the hash.
_NAME_CHARACTERS_MAX = 150
_NO_HARD_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES})
FILES_MAX = 10_000
# No file system of ours takes a longer path.
MAX_NAME = 1024
# These folders hold contents and the models that are made of them (`worker/files`), and are no models.
_RESERVED_FOLDERS = ("blobs", "models")


def make_safe_name(model: str) -> str:
    """Return one folder name for a model, different for different models; it begins with no dot."""
    if not model or len(model) > 1024 or any(ord(character) < 32 for character in model):
        raise InvalidRequest("This is not the name of a model.", code="bad_model_name")
    name = quote(model, safe="")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _NAME_CHARACTERS_MAX:
        name = f"{name[:_NAME_CHARACTERS_MAX]}-{hashlib.sha256(model.encode()).hexdigest()[:16]}"
    return name


def check_files(files: tuple[ModelFileItem, ...]) -> None:
    """Refuse paths that lead out of the folder, that are both file and folder, or that occur twice."""
    if len(files) > FILES_MAX:
        raise InvalidRequest(f"A model may have {FILES_MAX} files.", code="too_many_files")
    sizes: dict[str, int] = {}
    paths: set[PurePosixPath] = set()
    for file in files:
        path = PurePosixPath(file.path)
        has_control = any(ord(character) < 32 for character in file.path)
        if not path.parts or path.is_absolute() or ".." in path.parts or has_control or len(file.path) > 1024:
            raise make_outside_error(file.path)
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
    """Makes, replaces and deletes each model's folder on a worker, whose files are links to the files by sha256."""

    def __init__(self, root: Path, blob_path: Callable[[str], Path]) -> None:
        self._root = root
        self._blob_path = blob_path
        self._models: dict[str, HeldModel] = {}

    @property
    def models(self) -> dict[str, HeldModel]:
        """Return the models by name, as of the last `tidy` and the changes since."""
        return self._models

    def list_used_contents(self) -> set[str]:
        """Return the hashes of the contents that models are made of."""
        return {file.sha256 for model in self._models.values() for file in model.files}

    def tidy(self) -> None:
        """Finish or undo what a kill left half done, and read what is there. Call after a start."""
        new, old = self._root / ".new", self._root / ".old"
        for folder in (self._root, new, old):
            folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        for folder in list(old.iterdir()):
            target = self._root / folder.name
            if target.exists() or _read_manifest(folder) is None:
                _remove(folder)
            else:
                folder.rename(target)
        for folder in list(new.iterdir()):
            _remove(folder)
        found = (_read_manifest(folder) for folder in sorted(self._root.iterdir()) if not folder.name.startswith("."))
        self._models = {model.name: model for model in found if model is not None}

    def get_folder(self, model: str) -> Path:
        """Return where the files of a model are, if it has any."""
        return self._root / make_safe_name(model) / _FILES

    def find_path(self, model: str, entry: str) -> Path:
        """Return the path of one file or folder of a model; of the folder with all files without an entry."""
        if ".." in PurePosixPath(entry).parts or PurePosixPath(entry).is_absolute():
            raise make_outside_error(entry)
        path = self.get_folder(model) / entry
        if not path.exists():
            raise NotFound(f"{model} has no file {entry!r} here.", code="file_not_found")
        return path

    def is_in_place(self, model: HeldModel) -> bool:
        """Return whether the model's folder has exactly these files, with links to the contents that are here now."""
        if self._models.get(model.name) != model:
            return False
        folder = self.get_folder(model.name)
        return folder.is_dir() and all(self._is_link(folder / file.path, file.sha256) for file in model.files)

    def put(self, model: HeldModel) -> Path:
        """Build the folder again and put it in place of the previous one."""
        check_files(model.files)
        name = make_safe_name(model.name)
        target, new, old = self._root / name, self._root / ".new" / name, self._root / ".old" / name
        if target.is_symlink():
            raise make_outside_error(model.name)
        _remove(new)
        self._fill(new, model)
        if target.exists():
            _remove(old)
            target.rename(old)
        new.rename(target)
        _remove(old)
        self._models[model.name] = model
        return target / _FILES

    def delete(self, model: str) -> HeldModel | None:
        """Delete the folder and return the model that it held; contents stay."""
        folder = self._root / make_safe_name(model)
        held = self._models.pop(model, None) or _read_manifest(folder)
        _remove(folder)
        return held

    def _fill(self, folder: Path, model: HeldModel) -> None:
        (folder / _FILES).mkdir(parents=True, mode=PRIVATE_FOLDER)
        for file in model.files:
            path = folder / _FILES / file.path
            path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
            link_file(self._blob_path(file.sha256), path)
        document = {
            "model": model.name,
            "revision": model.revision,
            "files": [{"path": each.path, "sha256": each.sha256, "size": each.size_bytes} for each in model.files],
        }
        # Written last: a folder without it is worthless. After a power cut it may be lost, and is built again.
        write_note(folder / _MANIFEST, document)

    def _is_link(self, path: Path, sha256: str) -> bool:
        try:
            return path.samefile(self._blob_path(sha256))
        except OSError:
            return False


def link_file(source: Path, path: Path) -> None:
    """Make a hard link, or a symbolic one where the file system has no hard links."""
    try:
        # For a link, link to the file that it leads to.
        os.link(source.resolve(strict=True), path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINK:
            raise
        path.symlink_to(source.absolute())


def _read_manifest(folder: Path) -> HeldModel | None:
    try:
        document = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        files = tuple(
            ModelFileItem(path=str(each["path"]), sha256=str(each["sha256"]), size_bytes=int(each["size"]))
            for each in document["files"]
        )
        model = HeldModel(name=str(document["model"]), revision=str(document["revision"]), files=files)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return model if make_safe_name(model.name) == folder.name else None


def _remove(path: Path) -> None:
    """Remove a folder with its links, a file or a link; never what links lead to. Nothing to remove is no error."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    with contextlib.suppress(FileNotFoundError):
        # rmtree never follows a link, also not one that is put there meanwhile.
        assert shutil.rmtree.avoids_symlink_attacks, "this system cannot remove a folder safely"
        shutil.rmtree(path)


def delete_model(models_dir: Path, model: str) -> DeleteModelReply:
    """Delete the files that a user has put into the models folder: the folder of that name, or the file and all files
    called like it with a further suffix.

    A name that leads out of the folder, by `..`, from the root or over a link, is refused before anything is touched.
    Links inside a model are removed as links. Nothing to remove is no error.
    """
    path = _resolve_inside(models_dir, model)
    if path.relative_to(models_dir.resolve()).parts[0] in _RESERVED_FOLDERS:
        return DeleteModelReply(model=model)
    files = freed_bytes = 0
    try:
        for found in list(_iterate_files(path)):
            count, size_bytes = _measure(found)
            _remove(found)
            files, freed_bytes = files + count, freed_bytes + size_bytes
    except OSError as error:
        raise CorralError(
            f"The files of {model} could not be removed: {error.strerror}.",
            hint=f"{files} were removed before that.",
            code="model_not_deleted",
        ) from error
    return DeleteModelReply(model=model, files=files, freed_bytes=freed_bytes)


def _resolve_inside(models_dir: Path, model: str) -> Path:
    if not model or len(model) > MAX_NAME or any(ord(character) < 32 for character in model):
        raise InvalidRequest("This is not the name of a model.", code="bad_model_name")
    parts = PurePosixPath(model).parts
    if not parts or ".." in parts or PurePosixPath(model).is_absolute():
        raise _make_outside_error(model)
    try:
        root = models_dir.resolve()
        path = root.joinpath(*parts)
        real = path.resolve()
    except (OSError, RuntimeError) as error:
        # A link that leads back to itself leads nowhere.
        raise _make_outside_error(model) from error
    if root not in real.parents or root not in (path.parent.resolve(), *path.parent.resolve().parents):
        raise _make_outside_error(model)
    return path.parent.resolve() / path.name


def _make_outside_error(model: str) -> NotAllowed:
    return NotAllowed(
        f"{model[:MAX_NAME]!r} does not lie in the models folder.",
        hint="Name the model as it is called below that folder.",
        code="outside_models",
    )


def _iterate_files(path: Path) -> Iterator[Path]:
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
    """Return the number of files and their bytes."""
    if path.is_symlink() or not path.is_dir():
        return 1, path.lstat().st_size
    sizes = [
        (Path(folder) / name).lstat().st_size for folder, _, names in os.walk(path, onerror=_raise) for name in names
    ]
    return len(sizes), sum(sizes)


def _raise(error: OSError) -> None:
    if error.errno != errno.ENOENT:
        raise error
