"""Repositories of the Hugging Face hub, or of a server that speaks like it.

The hub's own library says which files a revision has, how large they are and, for large ones, their sha256; the files
are then fetched like any other, so they go on after an interruption and are verified. A branch is settled to a commit
first. The token goes to the hub's host only, not to where it redirects. Limit: the small files of a repository have no
sha256 there; a connection that is cut and an unlikely change of them in between is told apart by their ETag.
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
from corral.ports.origin import Found, Moved
from corral.transfer.download import Wish
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.http import refused
from corral.transfer.origins.origin import FILES_MAX, Means, bad_address, is_inside, partials

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo

# For the list of files: one answer of some kilobytes.
_ASK_LIMIT_S = 30.0
# Notes of git about the repository, in every one of them.
_LEFT_OUT = frozenset({".gitattributes", ".gitignore"})
_URI = re.compile(r"hf://(?P<repository>[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?(?:/(?P<path>.*))?")
_SHAPE = "hf://owner/repository@revision/file"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubAddress:
    repository: str
    # Empty: the main branch.
    revision: str
    # Empty: all files. With a / at its end, or without: a folder.
    path: str

    @property
    def text(self) -> str:
        return f"hf://{self.repository}@{quote(self.revision, safe='')}/{quote(self.path)}"


def parse_hub_address(uri: str) -> HubAddress:
    found = _URI.fullmatch(uri)
    path = unquote(found["path"] or "") if found else ""
    if found is None or (path and not is_inside(path)):
        raise bad_address(uri, _SHAPE)
    return HubAddress(repository=found["repository"], revision=unquote(found["revision"] or ""), path=path)


class HubOrigin:
    def __init__(self, means: Means) -> None:
        self._means = means

    async def resolve(self, part: FilePart) -> tuple[Found, ...]:
        address = parse_hub_address(part.uri)
        # A thread of its own: cancelled, nobody waits for it; it ends by its limit and changes nothing.
        info = await asyncio.to_thread(self._ask, address)
        if not info.sha or len(info.siblings or ()) > FILES_MAX:
            raise TransferFailed(f"{address.repository} has no commit or too many files.", code="unsupported")
        named = dict(_wanted(address, [sibling.rfilename for sibling in info.siblings or ()]))
        found = []
        for sibling in info.siblings or ():
            if sibling.rfilename in named:
                file = HubAddress(repository=address.repository, revision=info.sha, path=sibling.rfilename)
                sha256 = sibling.lfs.sha256 if sibling.lfs else ""
                name = named[sibling.rfilename]
                found.append(Found(path=name, address=file.text, sha256=sha256, size_bytes=sibling.size))
        if not found:
            what = f"{address.path!r} in " if address.path else "a file in "
            raise TransferFailed(f"There is no {what}{address.repository}.", code="not_found")
        return tuple(sorted(found, key=lambda one: one.path))

    async def fetch(self, found: Found, into: Path, moved: Moved) -> Path:
        wish = await asyncio.to_thread(self._wish, found)
        return (await self._means.downloader(into, self._means.inside).fetch(wish, moved)).path

    async def forget(self, found: Found, into: Path) -> None:
        partials(into).delete(await asyncio.to_thread(self._wish, found))

    def _ask(self, address: HubAddress) -> ModelInfo:
        _quiet_library()
        from httpx2 import HTTPError  # noqa: PLC0415 - what that library speaks
        from huggingface_hub import HfApi, errors  # noqa: PLC0415 - optional, and slow to import

        options = self._means.options
        try:
            # False: not the token that somebody has left on this machine.
            api = HfApi(
                endpoint=options.hub_endpoint.rstrip("/") or None,
                token=options.hub_token or False,
                library_name="corral",
            )
            return api.model_info(
                address.repository, revision=address.revision or None, files_metadata=True, timeout=_ASK_LIMIT_S
            )
        except errors.HFValidationError as error:
            raise bad_address(address.text, _SHAPE) from error
        except errors.GatedRepoError as error:
            raise _not_allowed(f"{address.repository} is given only to those who have agreed to its terms") from error
        except errors.RevisionNotFoundError as error:
            raise TransferFailed(
                f"{address.repository} has no revision {address.revision}.", code="not_found"
            ) from error
        except errors.RepositoryNotFoundError as error:
            raise _unknown(address.repository) from error
        except errors.HfHubHTTPError as error:
            raise _answered(
                address.repository, error.response.status_code, has_token=bool(options.hub_token)
            ) from error
        except (HTTPError, OSError, ValueError, TypeError, KeyError) as error:
            raise SourceFailed(
                f"The hub does not answer properly about {address.repository}: {type(error).__name__}.",
                code="source_unavailable",
            ) from error

    def _wish(self, found: Found) -> Wish:
        _quiet_library()
        from huggingface_hub import hf_hub_url  # noqa: PLC0415 - optional, and slow to import

        address = parse_hub_address(found.address)
        options = self._means.options
        url = hf_hub_url(
            address.repository,
            address.path,
            revision=address.revision,
            endpoint=options.hub_endpoint.rstrip("/") or None,
        )
        return Wish(
            url=url,
            file_name=found.path,
            sha256=found.sha256,
            size_bytes=found.size_bytes,
            is_size_promised=found.size_bytes is not None,
            headers={"Authorization": f"Bearer {options.hub_token}"} if options.hub_token else {},
        )


def _quiet_library() -> None:
    """Make sure that the library is there and tells nobody what else runs on this machine."""
    try:
        from huggingface_hub import constants  # noqa: PLC0415 - optional, and slow to import
    except ImportError as error:
        raise TransferFailed(
            "This frontend cannot speak to the Hugging Face hub.",
            hint=INSTALL_HINT.format(extra="hub"),
            code="unsupported",
        ) from error
    # It would ask the public hub for a list of programs to look for, even where another hub is set up.
    constants.HF_HUB_DISABLE_TELEMETRY = True


def _wanted(address: HubAddress, names: Sequence[str]) -> list[tuple[str, str]]:
    """Of all files those that are meant, with their places in the model's folder."""
    path = address.path.rstrip("/")
    if path and not address.path.endswith("/") and path in names:
        return [(path, path.rpartition("/")[2])]
    prefix = f"{path}/" if path else ""
    inside = [name for name in names if name.startswith(prefix) and name not in _LEFT_OUT]
    return [(name, name.removeprefix(prefix)) for name in inside if is_inside(name)]


def _not_allowed(what: str) -> TransferFailed:
    return TransferFailed(
        f"{what}.",
        hint="The setting hub_token of the frontend has to be a token of somebody who may have it.",
        code="not_allowed",
    )


def _unknown(repository: str) -> TransferFailed:
    """The hub does not say whether a repository is private or not there."""
    return TransferFailed(
        f"The hub has no {repository} that this frontend may see.",
        hint="If it is private, hub_token of the frontend has to be a token of somebody who may have it.",
        code="not_found",
    )


def _answered(repository: str, status: int, *, has_token: bool) -> TransferFailed | SourceFailed:
    if status == HTTPStatus.UNAUTHORIZED:
        # What the library makes of that depends on the address of the hub.
        return _not_allowed("The hub does not take the token of this frontend") if has_token else _unknown(repository)
    return refused(f"hf://{repository}", status)
