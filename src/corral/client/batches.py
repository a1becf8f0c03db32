"""Calls about batches: upload an input, start, list, show and cancel batches, and download their files."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import aiohttp

from corral.client.files import download_file
from corral.client.transport import ApiRequest, ApiTransport, make_error_from_response, parse_json
from corral.domain.errors import InvalidRequest
from corral.wire.batches import BatchIn, BatchListOut, BatchOut, OpenAiFileOut

# An upload or download ends if no byte moves for this long.
STALL_S = 60.0
CONNECT_S = 10.0


class BatchCalls:
    """Client-side calls of the HTTP API about batches of inference requests and their files."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def upload_input(self, path: Path) -> OpenAiFileOut:
        """Upload the input of a batch, as it is read."""
        try:
            source = path.open("rb")
        except OSError as error:
            raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from error
        with source:
            form = aiohttp.FormData()
            form.add_field("purpose", "batch")
            form.add_field("file", source, filename=path.name)
            transport = self._transport
            try:
                async with transport.session.post(
                    f"{transport.url}/v1/files",
                    data=form,
                    headers=transport.make_headers(),
                    timeout=_TIMEOUT,
                    allow_redirects=False,
                ) as response:
                    answer = await response.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                raise transport.make_unreachable_error(error) from error
        if response.status != 200:
            raise make_error_from_response(response.status, answer, origin=transport.url)
        return OpenAiFileOut.model_validate(parse_json(answer, origin=transport.url))

    async def create(self, batch: BatchIn) -> BatchOut:
        call = ApiRequest(method="POST", path="/v1/batches", body=batch, creates=True)
        return await self._transport.fetch(call, BatchOut)

    async def list(self, *, limit: int = 20, after: str = "") -> BatchListOut:
        parameters = {"limit": str(limit)} | ({"after": after} if after else {})
        return await self._transport.fetch(
            ApiRequest(method="GET", path="/v1/batches", parameters=parameters), BatchListOut
        )

    async def get(self, batch_id: str) -> BatchOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=_format_path(batch_id)), BatchOut)

    async def cancel(self, batch_id: str) -> BatchOut:
        return await self._transport.fetch(ApiRequest(method="POST", path=_format_path(batch_id, "/cancel")), BatchOut)

    async def download(self, file_id: str, target: BinaryIO) -> int:
        """Write the bytes of a file to an open one, and return how many there were."""
        path = f"/v1/files/{quote(file_id, safe='')}/content"
        return await download_file(self._transport, path, target)


_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=STALL_S)


def _format_path(batch_id: str, rest: str = "") -> str:
    return f"/v1/batches/{quote(batch_id, safe='')}{rest}"
