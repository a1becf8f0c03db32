"""`/join` and below: the script, the wheel and the requirements, for anybody; `/api/join`: the commands, for admins.

The open routes hold no secret: everything in them is in the product's own packages. A machine joins with a token.
"""

from __future__ import annotations

import asyncio
import hashlib

from fastapi import APIRouter, Request, Response

from corral.api.join.address import choose_address, choose_script_url
from corral.api.join.package import load_worker_package
from corral.api.join.script import render_script, script_command, script_command_without_curl, worker_command
from corral.api.parts import AdminIn, PartsIn
from corral.domain.errors import NotFound
from corral.wire.join import JoinOut

router = APIRouter(tags=["access"])
_NO_STORE = {"cache-control": "no-store"}


@router.get("/api/join")
async def join_commands(request: Request, parts: PartsIn, _: AdminIn) -> JoinOut:
    """The commands that make another machine a node, and whether it can reach this cluster. `{token}` in them stands
    for a join token."""
    package = await asyncio.to_thread(load_worker_package)
    address = await asyncio.to_thread(choose_address, parts.join, parts.public_url, str(request.base_url))
    script = await asyncio.to_thread(render_script, address.url, package)
    return JoinOut(
        url=address.url,
        problem=address.problem,
        hint=address.hint,
        command=script_command(address.url),
        command_without_curl=script_command_without_curl(address.url),
        worker_command=worker_command(address.url),
        version=package.version,
        wheel_sha256=package.wheel_sha256,
        script_sha256=hashlib.sha256(script.encode()).hexdigest(),
    )


@router.get("/join", include_in_schema=False)
async def join_script(request: Request, parts: PartsIn) -> Response:
    """The script that installs and starts a worker."""
    url = choose_script_url(parts.public_url, str(request.base_url))
    package = await asyncio.to_thread(load_worker_package)
    script = await asyncio.to_thread(render_script, url, package)
    return Response(script, media_type="text/x-shellscript", headers=_NO_STORE)


@router.get("/join/requirements.txt", include_in_schema=False)
async def join_requirements() -> Response:
    """What a worker needs beside its wheel, each with its version and hashes."""
    package = await asyncio.to_thread(load_worker_package)
    return Response(package.requirements, media_type="text/plain", headers=_NO_STORE)


@router.get("/join/{name}", include_in_schema=False)
async def join_wheel(name: str) -> Response:
    """The wheel, under its true name."""
    package = await asyncio.to_thread(load_worker_package)
    if name != package.wheel_name:
        raise NotFound(
            f"This frontend has {package.wheel_name}, and no other file.",
            hint="Fetch /join again: the frontends may have been upgraded meanwhile.",
        )
    return Response(package.wheel, media_type="application/zip", headers=_NO_STORE)
