"""Fetches repositories of the Hugging Face hub, or of a server with the same API.

The hub's own library says which files a revision has, how large they are and, for large ones, their sha256; the files
are then fetched like any other, so they are resumed and verified. A branch is resolved to a commit first. The token
goes to the hub's host only, not to where it redirects. Limit: the small files of a repository have no sha256 there; a
change of one during an interrupted download is detected by its ETag.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from corral.domain.errors import INSTALL_HINT
from corral.domain.model import FilePart
from corral.ports.files import OriginFile, ProgressCallback
from corral.transfer.downloader import DownloadRequest
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.http_client import make_refusal
from corral.transfer.origins.file_origin import FILES_MAX, OriginDeps, is_inside, make_address_error, open_partials

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo

# Time limit for the list of files: one response of some kilobytes.
_ASK_LIMIT_S = 30.0
# Files of git about the repository, in every one of them.
_LEFT_OUT = frozenset({".gitattributes", ".gitignore"})
_URI = re.compile(r"hf://(?P<repository>[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?(?:/(?P<path>.*))?")
_SHAPE = "hf://owner/repository@revision/file"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubAddress:
    """An address in the Hugging Face hub: repository, revision, and a file or folder."""

    repository: str
    # Empty means the main branch.
    revision: str
    # Empty means all files. A folder may have a / at its end, or not.
    path: str

    @property
    def text(self) -> str:
        return f"hf://{self.repository}@{quote(self.revision, safe='')}/{quote(self.path)}"


def parse_hub_address(uri: str) -> HubAddress:
    found = _URI.fullmatch(uri)
    path = unquote(found["path"] or "") if found else ""
    if found is None or (path and not is_inside(path)):
        raise make_address_error(uri, _SHAPE)
    return HubAddress(repository=found["repository"], revision=unquote(found["revision"] or ""), path=path)


class HubOrigin:
    """Fetches model files from repositories of the Hugging Face hub, or of a server with the same API."""

    def __init__(self, deps: OriginDeps) -> None:
        self._deps = deps

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        address = parse_hub_address(part.uri)
        # Use a thread of its own: on cancellation no caller waits for it; it ends by its limit and changes nothing.
        info = await asyncio.to_thread(self._fetch_info, address)
        if not info.sha or len(info.siblings or ()) > FILES_MAX:
            raise TransferFailed(f"{address.repository} has no commit or too many files.", code="unsupported")
        named = dict(_select_files(address, [sibling.rfilename for sibling in info.siblings or ()]))
        found = []
        for sibling in info.siblings or ():
            if sibling.rfilename in named:
                file = HubAddress(repository=address.repository, revision=info.sha, path=sibling.rfilename)
                sha256 = sibling.lfs.sha256 if sibling.lfs else ""
                name = named[sibling.rfilename]
                found.append(OriginFile(path=name, address=file.text, sha256=sha256, size_bytes=sibling.size))
        if not found:
            subject = f"{address.path!r} in " if address.path else "a file in "
            raise TransferFailed(f"There is no {subject}{address.repository}.", code="not_found")
        return tuple(sorted(found, key=lambda one: one.path))

    async def fetch(self, found: OriginFile, into: Path, on_progress: ProgressCallback) -> Path:
        request = await asyncio.to_thread(self._make_request, found)
        return (await self._deps.make_downloader(into, self._deps.trusted_http).fetch(request, on_progress)).path

    async def forget(self, found: OriginFile, into: Path) -> None:
        open_partials(into).delete(await asyncio.to_thread(self._make_request, found))

    def _fetch_info(self, address: HubAddress) -> ModelInfo:
        _prepare_library()
        from httpx2 import HTTPError  # noqa: PLC0415 - what that library speaks
        from huggingface_hub import HfApi, errors  # noqa: PLC0415 - optional, and slow to import

        options = self._deps.options
        try:
            # False means: do not use a token that a user has left on this machine.
            api = HfApi(
                endpoint=options.hub_endpoint.rstrip("/") or None,
                token=options.hub_token or False,
                library_name="corral",
            )
            return api.model_info(
                address.repository, revision=address.revision or None, files_metadata=True, timeout=_ASK_LIMIT_S
            )
        except errors.HFValidationError as error:
            raise make_address_error(address.text, _SHAPE) from error
        except errors.GatedRepoError as error:
            raise _make_not_allowed_error(
                f"{address.repository} is given only to those who have agreed to its terms"
            ) from error
        except errors.RevisionNotFoundError as error:
            raise TransferFailed(
                f"{address.repository} has no revision {address.revision}.", code="not_found"
            ) from error
        except errors.RepositoryNotFoundError as error:
            raise _make_unknown_error(address.repository) from error
        except errors.HfHubHTTPError as error:
            raise _make_status_error(
                address.repository, error.response.status_code, has_token=bool(options.hub_token)
            ) from error
        except (HTTPError, OSError, ValueError, TypeError, KeyError) as error:
            raise SourceFailed(
                f"The hub does not respond properly about {address.repository}: {type(error).__name__}.",
                code="source_unavailable",
            ) from error

    def _make_request(self, found: OriginFile) -> DownloadRequest:
        _prepare_library()
        from huggingface_hub import hf_hub_url  # noqa: PLC0415 - optional, and slow to import

        address = parse_hub_address(found.address)
        options = self._deps.options
        url = hf_hub_url(
            address.repository,
            address.path,
            revision=address.revision,
            endpoint=options.hub_endpoint.rstrip("/") or None,
        )
        return DownloadRequest(
            url=url,
            file_name=found.path,
            sha256=found.sha256,
            size_bytes=found.size_bytes,
            is_size_promised=found.size_bytes is not None,
            headers={"Authorization": f"Bearer {options.hub_token}"} if options.hub_token else {},
        )


def _prepare_library() -> None:
    """Make sure that the library is installed and sends no telemetry about this machine."""
    try:
        from huggingface_hub import constants  # noqa: PLC0415 - optional, and slow to import
    except ImportError as error:
        raise TransferFailed(
            "This frontend cannot speak to the Hugging Face hub.",
            hint=INSTALL_HINT.format(extra="hub"),
            code="unsupported",
        ) from error
    # The library would ask the public hub for a list of programs to look for, even where another hub is set up.
    constants.HF_HUB_DISABLE_TELEMETRY = True


def _select_files(address: HubAddress, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the files that the address means, with their paths in the model's folder."""
    path = address.path.rstrip("/")
    if path and not address.path.endswith("/") and path in names:
        return [(path, path.rpartition("/")[2])]
    prefix = f"{path}/" if path else ""
    inside = [name for name in names if name.startswith(prefix) and name not in _LEFT_OUT]
    return [(name, name.removeprefix(prefix)) for name in inside if is_inside(name)]


def _make_not_allowed_error(what: str) -> TransferFailed:
    return TransferFailed(
        f"{what}.",
        hint="The setting hub_token of the frontend has to be a token of a user with access to it.",
        code="not_allowed",
    )


def _make_unknown_error(repository: str) -> TransferFailed:
    """Make the error for a repository that the hub does not show: it does not say whether it is private or missing."""
    return TransferFailed(
        f"The hub has no {repository} that this frontend may see.",
        hint="If it is private, hub_token of the frontend has to be a token of a user with access to it.",
        code="not_found",
    )


def _make_status_error(repository: str, status: int, *, has_token: bool) -> TransferFailed | SourceFailed:
    if status == HTTPStatus.UNAUTHORIZED:
        # Which exception the library raises for that depends on the address of the hub.
        return (
            _make_not_allowed_error("The hub rejects the token of this frontend")
            if has_token
            else _make_unknown_error(repository)
        )
    return make_refusal(f"hf://{repository}", status)
