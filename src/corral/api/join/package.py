"""Packs the code that this frontend runs into a wheel for workers.

Guarantee: the same code gives the same bytes on every frontend, whether it was installed from a wheel or runs from a
checkout: the files are sorted, not compressed, and have one fixed time and mode. A worker therefore runs exactly the
version of the frontend that it joins, and no package index has to have a package named corral.
Limit: the web page is left out, because a worker does not serve it; the wheel of `make dist` has it.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import corral
from corral.domain.errors import Unavailable

REQUIREMENTS = Path(__file__).parent / "requirements.txt"
# The first moment that a zip file can name.
_WRITTEN_AT = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = 0o100644 << 16
_PAGE = "api/page/built/"
_WHEEL = "Wheel-Version: 1.0\nGenerator: corral\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
# What a wheel's folder of metadata has beside its own description.
_METADATA = ("METADATA", "entry_points.txt", "licenses/LICENSE")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPackage:
    """What a new machine downloads: the wheel, and the locked requirements that it is installed with."""

    version: str
    wheel: bytes
    requirements: bytes
    wheel_sha256: str
    requirements_sha256: str

    @property
    def wheel_name(self) -> str:
        return f"corral-{self.version}-py3-none-any.whl"


@cache
def load_worker_package() -> WorkerPackage:
    """Return the package of this frontend's code, packed at the first call and kept. Blocks: call it in a thread.

    Raises Unavailable if the files of the installation cannot be read.
    """
    try:
        installed = distribution("corral")
        version = installed.version
        wheel = pack_wheel(Path(corral.__file__).parent, _read_metadata(installed), version)
        requirements = REQUIREMENTS.read_bytes()
    except (PackageNotFoundError, OSError) as error:
        raise Unavailable(
            "This frontend cannot pack its own code for another machine.",
            hint="Install it again (`make install` in a checkout), or take the wheel that `make dist` builds there.",
            details={"cause": str(error)},
        ) from error
    return WorkerPackage(
        version=version,
        wheel=wheel,
        requirements=requirements,
        wheel_sha256=hashlib.sha256(wheel).hexdigest(),
        requirements_sha256=hashlib.sha256(requirements).hexdigest(),
    )


def pack_wheel(code: Path, metadata: dict[str, bytes], version: str) -> bytes:
    """Return a wheel of the package folder `code`, with these files as its metadata."""
    folder = f"corral-{version}.dist-info"
    files = {f"corral/{name}": path.read_bytes() for name, path in _find_files(code)}
    files |= {f"{folder}/{name}": body for name, body in sorted(metadata.items())}
    files[f"{folder}/WHEEL"] = _WHEEL.encode()
    record = "".join(f"{name},{_digest(body)},{len(body)}\n" for name, body in files.items())
    files[f"{folder}/RECORD"] = f"{record}{folder}/RECORD,,\n".encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, body in files.items():
            entry = zipfile.ZipInfo(name, _WRITTEN_AT)
            entry.external_attr = _PLAIN_FILE
            entry.create_system = 3
            archive.writestr(entry, body)
    return packed.getvalue()


def _read_metadata(installed: Distribution) -> dict[str, bytes]:
    found = {name: installed.read_text(name) for name in _METADATA}
    if not found["METADATA"]:
        raise FileNotFoundError("METADATA")
    return {name: text.encode() for name, text in found.items() if text}


def _find_files(code: Path) -> Iterator[tuple[str, Path]]:
    paths = {path.relative_to(code).as_posix(): path for path in code.rglob("*") if path.is_file()}
    for name in sorted(paths):
        if "__pycache__/" not in name and not name.startswith(_PAGE) and not paths[name].name.startswith("."):
            yield name, paths[name]


def _digest(body: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip("=")
    return f"sha256={digest}"
