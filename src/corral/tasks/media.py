"""Fetches the attachments of a run: from the request itself, from addresses in it, and from the sources of the task.

Guarantees: addresses lead to the open internet only, unless the operator allows others; each attachment and all of them
together are bounded, in bytes and in time, the wait for a place included. An owner with slow sources takes a share of
the places of a frontend and no more. Fetched before the run is admitted and outside of any transaction, so a run
that was admitted has everything that it needs.
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from corral.domain.access import Owner
from corral.domain.errors import InvalidRequest, Unavailable, Unprocessable
from corral.domain.task import Media, MediaKind, MediaSource
from corral.policy.tasks import (
    MEDIA_BYTES_MAX,
    MEDIA_MAX,
    MEDIA_TOTAL_BYTES_MAX,
    check_address,
    check_media_size,
    get_default_type,
    parse_data_uri,
    redact_address,
)
from corral.ports.files import Fetcher, FetchRequest, FetchResponse
from corral.tasks.secret_values import SecretResolver, resolve_values

SOURCE_TIMEOUT_S = 30.0
# Of all sources of one run together: a caller waits for the answer.
TOTAL_TIMEOUT_S = 120.0
# How many runs fetch at the same time on one frontend, of all owners and of one: each holds its attachments in memory.
FETCHES_MAX = 8
FETCHES_OF_OWNER_MAX = 2
# Types that a server sends with an error or a sign-in page.
_PAGE_TYPES = ("text/html", "application/json", "text/plain")


class MediaFetcher:
    """Fetches attachments for jobs of users' tasks from addresses, within limits of size and time."""

    def __init__(self, fetcher: Fetcher, secrets: SecretResolver, *, allows_private: bool) -> None:
        self._fetcher = fetcher
        self._secrets = secrets
        self._allows_private = allows_private
        self._free = asyncio.Semaphore(FETCHES_MAX)
        # The places of each owner, for as long as one is used.
        self._free_of_owner: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def fetch(
        self, owner: Owner, given: Mapping[MediaKind, Sequence[str]], sources: Sequence[MediaSource]
    ) -> list[Media]:
        """Return the attachments of a run: those of the request, and those of the sources for kinds that the request
        does not bring itself."""
        attachments: list[Media | MediaSource] = []
        for kind in MediaKind:
            texts = given.get(kind, ())
            attachments += [_parse_given(kind, text) for text in texts]
            attachments += [] if texts else [source for source in sources if source.kind is kind]
        if len(attachments) > MEDIA_MAX:
            raise InvalidRequest(f"A job has at most {MEDIA_MAX} attachments.", code="bad_media")
        check_media_size([one for one in attachments if isinstance(one, Media)])
        if not any(isinstance(one, MediaSource) for one in attachments):
            return [one for one in attachments if isinstance(one, Media)]
        free_of_owner = self._free_of_owner.setdefault(str(owner), asyncio.Semaphore(FETCHES_OF_OWNER_MAX))
        try:
            async with asyncio.timeout(TOTAL_TIMEOUT_S), free_of_owner, self._free:
                return await self._fetch_all(owner, attachments)
        except TimeoutError as error:
            raise Unavailable("The sources of the task took too long.", code="source_unavailable") from error

    async def _fetch_all(self, owner: Owner, attachments: Sequence[Media | MediaSource]) -> list[Media]:
        media: list[Media] = []
        left = MEDIA_TOTAL_BYTES_MAX - sum(len(one.content) for one in attachments if isinstance(one, Media))
        for one in attachments:
            found = one if isinstance(one, Media) else await self._fetch_one(owner, one, min(MEDIA_BYTES_MAX, left))
            left -= len(found.content) if found is not one else 0
            media.append(found)
        check_media_size(media)
        return media

    async def _fetch_one(self, owner: Owner, source: MediaSource, limit_bytes: int) -> Media:
        headers = await resolve_values(self._secrets, owner, source.headers)
        request = FetchRequest(
            url=source.url,
            headers=headers,
            limit_bytes=limit_bytes,
            timeout_s=SOURCE_TIMEOUT_S,
            is_public_only=not self._allows_private,
            # Headers may hold secrets, which stay with their host.
            follows_redirects=not headers,
        )
        response = await self._fetcher.fetch(request)
        host = urlsplit(source.url).hostname
        if response.status != HTTPStatus.OK:
            is_passing = response.status >= HTTPStatus.INTERNAL_SERVER_ERROR
            problem = f"{host} returned {response.status} for an attachment."
            raise (
                Unavailable(problem, code="source_unavailable")
                if is_passing
                else Unprocessable(problem, code="bad_media")
            )
        return Media(
            kind=source.kind,
            content_type=_find_type(source, response),
            name=urlsplit(source.url).path.rpartition("/")[2][:200],
            address=redact_address(source.url),
            content=response.body,
        )


def _parse_given(kind: MediaKind, text: str) -> Media | MediaSource:
    """Return an attachment of a request: data, or an address to fetch it from."""
    found = parse_data_uri(kind, text)
    if found is not None:
        return found
    if not text.startswith(("http://", "https://")):
        raise InvalidRequest(
            f"The {kind} is neither an address nor a data URI.",
            hint="https://… or data:image/png;base64,…",
            code="bad_media",
        )
    check_address(text)
    return MediaSource(kind=kind, url=text)


def _find_type(source: MediaSource, response: FetchResponse) -> str:
    """Return the type of an attachment: as its server says, or by its name where that cannot be."""
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if source.kind is MediaKind.FILE:
        return media_type or get_default_type(source.kind)
    if media_type.startswith(f"{source.kind}/"):
        return media_type
    if media_type in _PAGE_TYPES:
        host = urlsplit(source.url).hostname
        raise Unprocessable(f"{host} returned {media_type} where the task expects {source.kind}.", code="bad_media")
    guessed, _ = mimetypes.guess_type(urlsplit(source.url).path)
    return guessed if guessed and guessed.startswith(f"{source.kind}/") else get_default_type(source.kind)
