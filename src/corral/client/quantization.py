"""Calls about quantisations: plan, start, follow, stop and delete them, and register and download their results."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, BinaryIO
from urllib.parse import quote

from corral.client.files import download_file
from corral.client.runs import RunCalls
from corral.client.transport import ApiRequest, ApiTransport, make_owner_parameters
from corral.wire.quantization import (
    QuantizationImportOut,
    QuantizationListOut,
    QuantizationOut,
    QuantizationPlanOut,
)
from corral.wire.runs import RunEventOut

_JOBS = "/api/quantization/jobs"


class QuantizationCalls:
    """Client-side calls of the HTTP API about quantisations, which make models smaller."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def plan(self, model: str) -> QuantizationPlanOut:
        """Return how large a model would be with each type, and where it would fit."""
        call = ApiRequest(method="GET", path="/api/quantization/plan", parameters={"model": model})
        return await self._transport.fetch(call, QuantizationPlanOut)

    async def start(self, body: Mapping[str, Any]) -> QuantizationOut:
        call = ApiRequest(method="POST", path=_JOBS, body=body, creates=True)
        return await self._transport.fetch(call, QuantizationOut)

    async def list(self, *, limit: int = 50, all_users: bool = False) -> QuantizationListOut:
        parameters = {"limit": str(limit), **make_owner_parameters(all_users=all_users)}
        return await self._transport.fetch(
            ApiRequest(method="GET", path=_JOBS, parameters=parameters), QuantizationListOut
        )

    async def get(self, job_id: str) -> QuantizationOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=_format_path(job_id)), QuantizationOut)

    def follow(self, job_id: str) -> AsyncGenerator[RunEventOut, None]:
        """Return the entries of the trace as they come, to the end of the run. Resumes after lost connections."""
        return RunCalls(self._transport).follow(job_id)

    async def stop(self, job_id: str) -> QuantizationOut:
        call = ApiRequest(method="POST", path=_format_path(job_id, "stop"))
        return await self._transport.fetch(call, QuantizationOut)

    async def delete(self, job_id: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=_format_path(job_id)))

    async def register(self, job_id: str, name: str = "") -> QuantizationImportOut:
        """Register a result as a model."""
        call = ApiRequest(method="POST", path=_format_path(job_id, "import"), body={"name": name})
        return await self._transport.fetch(call, QuantizationImportOut)

    async def download(self, job_id: str, target: BinaryIO) -> int:
        """Write a result to a file and return its bytes."""
        return await download_file(self._transport, _format_path(job_id, "download"), target)


def _format_path(job_id: str, *parts: str) -> str:
    return "/".join((_JOBS, *(quote(part, safe="") for part in (job_id, *parts))))
