"""`/join` and below: the script, the wheel and the requirements, for anyone; `/api/join`: the commands, for admins.

The open routes hold no secret: everything in them is in the product's own packages. A machine joins with a token.

Guarantee of the wheel: the same code gives the same bytes on every frontend, whether it was installed from a wheel or
runs from a checkout: the files are sorted, not compressed, and have one fixed time and mode. A worker therefore runs
exactly the version of the frontend that it joins, and no package index has to have a package named corral. Limit: the
web page is left out, because a worker does not serve it; the wheel of `make dist` has it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response

import corral
from corral.api.deps import AdminIn, DepsIn
from corral.api.join.address import choose_address, choose_script_url, is_loopback
from corral.domain.errors import NotFound, Unavailable
from corral.wire.access import JoinOut

router = APIRouter(tags=["access"])
_NO_STORE = {"cache-control": "no-store"}
REQUIREMENTS = Path(__file__).parent / "requirements.txt"
# The earliest time that a zip file can express.
_WRITTEN_AT = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = 0o100644 << 16
_PAGE = "api/page/built/"
_WHEEL = "Wheel-Version: 1.0\nGenerator: corral\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
# The files of a wheel's metadata folder besides `WHEEL` and `RECORD`.
_METADATA = ("METADATA", "entry_points.txt", "licenses/LICENSE")
_TEMPLATE = Path(__file__).parent / "join.sh"
# Placeholder for a token's secret in the commands.
TOKEN = "{token}"  # noqa: S105 - a placeholder
# Makes the worker and its engines listen on all addresses, so that frontends and other nodes reach them.
OPEN_FLAGS = "--http-host 0.0.0.0 --engine-host 0.0.0.0"


@router.get("/api/join")
async def show_join_commands(request: Request, deps: DepsIn, _: AdminIn) -> JoinOut:
    """Return the commands that make another machine a node, and whether it can reach this cluster. `{token}` in them is
    a placeholder for a join token."""
    package = await asyncio.to_thread(load_worker_package)
    address = await asyncio.to_thread(choose_address, deps.join_options, deps.public_url, str(request.base_url))
    script = await asyncio.to_thread(render_script, address.url, package)
    return JoinOut(
        url=address.url,
        problem=address.problem,
        hint=address.hint,
        command=make_script_command(address.url),
        command_without_curl=make_curlless_script_command(address.url),
        worker_command=make_worker_command(address.url),
        version=package.version,
        wheel_sha256=package.wheel_sha256,
        script_sha256=hashlib.sha256(script.encode()).hexdigest(),
    )


@router.get("/join", include_in_schema=False)
async def show_join_script(request: Request, deps: DepsIn) -> Response:
    """Return the script that installs and starts a worker."""
    url = choose_script_url(deps.public_url, str(request.base_url))
    package = await asyncio.to_thread(load_worker_package)
    script = await asyncio.to_thread(render_script, url, package)
    return Response(script, media_type="text/x-shellscript", headers=_NO_STORE)


@router.get("/join/requirements.txt", include_in_schema=False)
async def show_join_requirements() -> Response:
    """Return the requirements of a worker besides its wheel, each with its version and hashes."""
    package = await asyncio.to_thread(load_worker_package)
    return Response(package.requirements, media_type="text/plain", headers=_NO_STORE)


@router.get("/join/{name}", include_in_schema=False)
async def download_join_wheel(name: str) -> Response:
    """Return the wheel under its own file name."""
    package = await asyncio.to_thread(load_worker_package)
    if name != package.wheel_name:
        raise NotFound(
            f"This frontend has {package.wheel_name}, and no other file.",
            hint="Fetch /join again: the frontends may have been upgraded meanwhile.",
        )
    return Response(package.wheel, media_type="application/zip", headers=_NO_STORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPackage:
    """Files that a frontend serves to a new machine, to install a worker: the wheel and locked requirements."""

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
    record = "".join(f"{name},{_format_digest(body)},{len(body)}\n" for name, body in files.items())
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


def _format_digest(body: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip("=")
    return f"sha256={digest}"


def render_script(url: str, package: WorkerPackage) -> str:
    """Return the script for a frontend at `url`, which must be plain (`check_url`). Reads a file."""
    values = {
        "@URL@": url,
        "@VERSION@": package.version,
        "@WHEEL@": package.wheel_name,
        "@WHEEL_SHA256@": package.wheel_sha256,
        "@REQUIREMENTS_SHA256@": package.requirements_sha256,
        "@OPEN_FLAGS@": _pick_open_flags(url),
    }
    text = _TEMPLATE.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def make_script_command(url: str) -> str:
    return f"curl -fsSL {url}/join | sh -s -- --token {TOKEN}"


def make_curlless_script_command(url: str) -> str:
    fetch = f"import urllib.request as r; print(r.urlopen('{url}/join').read().decode())"
    return f'python3 -c "{fetch}" | sh -s -- --token {TOKEN}'


def make_worker_command(url: str) -> str:
    """Return the command for a machine on which Corral is already installed."""
    return " ".join(filter(None, (f"corral worker --join {url} --token {TOKEN}", _pick_open_flags(url))))


def _pick_open_flags(url: str) -> str:
    """Return the flags that open the worker's ports; none if the worker runs on the frontend's machine."""
    return "" if is_loopback(urlsplit(url).hostname) else OPEN_FLAGS
