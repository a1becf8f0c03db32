"""Calls about fine-tunings: datasets, jobs, their curves and checkpoints, exports and downloads."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import aiohttp

from corral.client.collections import CONNECT_S, STALL_S
from corral.client.files import download_file
from corral.client.runs import RunCalls
from corral.client.transport import (
    ApiRequest,
    ApiTransport,
    make_error_from_response,
    make_owner_parameters,
    parse_json,
)
from corral.domain.errors import InvalidRequest
from corral.wire.fine_tuning import (
    CheckpointListOut,
    DatasetListOut,
    DatasetOut,
    FineTuneCurveOut,
    FineTuneExportOut,
    FineTuneListOut,
    FineTuneOut,
)
from corral.wire.runs import RunEventOut

_JOBS = "/api/fine-tuning/jobs"
_DATASETS = "/api/fine-tuning/datasets"


class FineTuningCalls:
    """Client-side calls of the HTTP API about fine-tunings, which train models on examples."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    # --- datasets ---

    async def upload_dataset(self, path: Path, name: str = "") -> DatasetOut:
        """Upload a dataset, as it is read. `name`: another name than that of the file."""
        try:
            source = path.open("rb")
        except OSError as error:
            raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from error
        transport = self._transport
        with source:
            form = aiohttp.FormData()
            form.add_field("file", source, filename=name or path.name)
            try:
                async with transport.session.post(
                    f"{transport.url}{_DATASETS}",
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
        return DatasetOut.model_validate(parse_json(answer, origin=transport.url))

    async def list_datasets(self) -> DatasetListOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=_DATASETS), DatasetListOut)

    async def delete_dataset(self, dataset_id: str) -> None:
        path = f"{_DATASETS}/{quote(dataset_id, safe='')}"
        await self._transport.send(ApiRequest(method="DELETE", path=path))

    # --- jobs ---

    async def start(self, body: Mapping[str, Any]) -> FineTuneOut:
        call = ApiRequest(method="POST", path=_JOBS, body=body, creates=True)
        return await self._transport.fetch(call, FineTuneOut)

    async def list(self, *, limit: int = 50, all_users: bool = False) -> FineTuneListOut:
        parameters = {"limit": str(limit), **make_owner_parameters(all_users=all_users)}
        return await self._transport.fetch(ApiRequest(method="GET", path=_JOBS, parameters=parameters), FineTuneListOut)

    async def get(self, job_id: str) -> FineTuneOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=_format_path(job_id)), FineTuneOut)

    def follow(self, job_id: str) -> AsyncGenerator[RunEventOut, None]:
        """Return the entries of the trace as they come, to the end of the run. Resumes after lost connections."""
        return RunCalls(self._transport).follow(job_id)

    async def read_curve(self, job_id: str) -> FineTuneCurveOut:
        call = ApiRequest(method="GET", path=_format_path(job_id, "curve"))
        return await self._transport.fetch(call, FineTuneCurveOut)

    async def list_checkpoints(self, job_id: str) -> CheckpointListOut:
        call = ApiRequest(method="GET", path=_format_path(job_id, "checkpoints"))
        return await self._transport.fetch(call, CheckpointListOut)

    async def stop(self, job_id: str, *, saves: bool = False) -> FineTuneOut:
        parameters = {"save_checkpoint": str(saves).lower()}
        call = ApiRequest(method="POST", path=_format_path(job_id, "stop"), parameters=parameters)
        return await self._transport.fetch(call, FineTuneOut)

    async def delete(self, job_id: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=_format_path(job_id)))

    async def export(self, job_id: str, body: Mapping[str, Any]) -> FineTuneExportOut:
        """Make a model of a checkpoint."""
        call = ApiRequest(method="POST", path=_format_path(job_id, "export"), body=body)
        return await self._transport.fetch(call, FineTuneExportOut)

    async def download(self, job_id: str, checkpoint: str, target: BinaryIO) -> int:
        """Write a checkpoint to a file as a tar.gz archive, and return its bytes."""
        path = _format_path(job_id, "download") + (f"?checkpoint={quote(checkpoint, safe='')}" if checkpoint else "")
        return await download_file(self._transport, path, target)


def _format_path(job_id: str, *parts: str) -> str:
    return "/".join((_JOBS, *(quote(part, safe="") for part in (job_id, *parts))))
