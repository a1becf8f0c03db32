"""How another machine becomes a node, as JSON."""

from __future__ import annotations

from pydantic import Field

from corral.wire.base import Lenient


class JoinOut(Lenient):
    url: str = Field(description="The address by which the other machine reaches this cluster.")
    problem: str | None = Field(description="Why no other machine can reach it; null: others can.")
    hint: str | None = Field(description="What to do about the problem.")
    command: str = Field(description="Installs Corral and starts its worker; {token} stands for a join token.")
    command_without_curl: str = Field(description="The same, for a machine without curl.")
    worker_command: str = Field(description="Starts the worker where Corral is installed already.")
    version: str = Field(description="The version that is installed.", examples=["0.1.0"])
    wheel_sha256: str = Field(description="Of the wheel, which the script checks.")
    script_sha256: str = Field(description="Of the script itself.")
