"""Calls about collections of documents: create, fill, search, reset and delete them, and their entries and sources."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import aiohttp

from corral.client.transport import ApiRequest, ApiTransport, make_error_from_response, parse_json
from corral.domain.errors import InvalidRequest
from corral.wire.collections import (
    CollectionIn,
    CollectionListOut,
    CollectionOut,
    CollectionSearchIn,
    CollectionSearchOut,
    CollectionSourceIn,
    CollectionSourceListOut,
    CollectionSourceRefIn,
    CollectionUploadOut,
    EntryContentOut,
    EntryListOut,
    EntryRefIn,
)

# An upload ends if no byte moves for this long.
STALL_S = 60.0
CONNECT_S = 10.0


class CollectionCalls:
    """Client-side calls of the HTTP API about collections of documents."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self) -> CollectionListOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=_format_path()), CollectionListOut)

    async def create(self, body: CollectionIn) -> CollectionOut:
        call = ApiRequest(method="POST", path=_format_path(), body=body, creates=True)
        return await self._transport.fetch(call, CollectionOut)

    async def reset(self, name: str) -> CollectionOut:
        return await self._transport.fetch(ApiRequest(method="POST", path=_format_path(name, "/reset")), CollectionOut)

    async def delete(self, name: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=_format_path(name)))

    async def upload(self, name: str, path: Path, entry: str = "") -> CollectionUploadOut:
        """Upload a document, as it is read. `entry`: another name than that of the file."""
        try:
            source = path.open("rb")
        except OSError as error:
            raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from error
        with source:
            form = aiohttp.FormData()
            form.add_field("file", source, filename=entry or path.name)
            transport = self._transport
            try:
                async with transport.session.post(
                    f"{transport.url}{_format_path(name, '/upload')}",
                    data=form,
                    headers=transport.make_headers(),
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=STALL_S),
                    allow_redirects=False,
                ) as response:
                    answer = await response.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                raise transport.make_unreachable_error(error) from error
        if response.status != HTTPStatus.CREATED:
            raise make_error_from_response(response.status, answer, origin=transport.url)
        return CollectionUploadOut.model_validate(parse_json(answer, origin=transport.url))

    async def list_entries(self, name: str, *, after: str = "") -> EntryListOut:
        parameters = {"after": after} if after else {}
        call = ApiRequest(method="GET", path=_format_path(name, "/entries"), parameters=parameters)
        return await self._transport.fetch(call, EntryListOut)

    async def read_entry(self, name: str, entry: str, *, start: int = 0) -> EntryContentOut:
        path = _format_path(name, f"/entries/{quote(entry)}")
        call = ApiRequest(method="GET", path=path, parameters={"start": str(start)})
        return await self._transport.fetch(call, EntryContentOut)

    async def delete_entry(self, name: str, entry: str) -> EntryListOut:
        call = ApiRequest(method="DELETE", path=_format_path(name, "/entry/delete"), body=EntryRefIn(entry=entry))
        return await self._transport.fetch(call, EntryListOut)

    async def search(self, name: str, query: str, *, max_results: int) -> CollectionSearchOut:
        body = CollectionSearchIn(query=query, max_results=max_results)
        call = ApiRequest(method="POST", path=_format_path(name, "/search"), body=body)
        return await self._transport.fetch(call, CollectionSearchOut)

    async def list_sources(self, name: str) -> CollectionSourceListOut:
        call = ApiRequest(method="GET", path=_format_path(name, "/sources"))
        return await self._transport.fetch(call, CollectionSourceListOut)

    async def add_source(self, name: str, body: CollectionSourceIn) -> CollectionSourceListOut:
        call = ApiRequest(method="POST", path=_format_path(name, "/sources"), body=body)
        return await self._transport.fetch(call, CollectionSourceListOut)

    async def delete_source(self, name: str, url: str) -> CollectionSourceListOut:
        body = CollectionSourceRefIn(url=url)
        call = ApiRequest(method="DELETE", path=_format_path(name, "/sources"), body=body)
        return await self._transport.fetch(call, CollectionSourceListOut)


def _format_path(name: str = "", rest: str = "") -> str:
    return f"/api/agents/collections{'/' if name else ''}{quote(name, safe='')}{rest}"
