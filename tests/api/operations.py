"""The routes of the API as its own description lists them, so that no test forgets a new one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from fastapi import FastAPI

from corral.api.application import create_app
from corral.api.metrics import FrontendMetrics

SOME_ID = "00000000-0000-4000-8000-000000000000"
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
# For whoever has a key, also one that administers nothing.
FOR_EVERYBODY = frozenset({"/api/models/capabilities", "/api/models/{name}/load-status", "/api/me", "/api/me/usage"})
# How a browser comes in and goes out; tested on their own.
FOR_BROWSERS = "/api/session"
# Stream for ever; tested on their own.
STREAMS = ("/api/events", "/api/stream", "/api/operations/events", "/api/nodes/{node}/backend-logs/{key}/stream")
# They take a configuration, a change of one or a whole fleet, as YAML or JSON, and say what is wrong with it.
YAML = (
    "/api/models/config/{name}",
    "/api/models/config-json/{name}",
    "/models/edit/{name}",
    "/models/import",
    "/api/fleet",
)
# Nothing to say is fine, too.
WITHOUT_BODY = ("/api/models/install/{name}",)
# What stands in an address where no id does.
_VALUES = {"sha256": "0" * 64}
# A body that each writing route accepts, so that nothing but the tested thing can be wrong with the call.
_BODIES: dict[str, Any] = {
    "/api/tokens": {"name": "t"},
    "/api/keys": {"name": "k"},
    "/api/users": {"name": "u"},
    "/api/secrets/{name}": {"value": "v"},
    "/api/keys/{key_id}": {"name": "k"},
    "/api/users/{user_id}": {"scope": "infer"},
    "/labels": {"zone": "b"},
    "/max-replicas-per-model": {"value": 2},
    "/vram-budget": {"value": "80%"},
    "/credentials": {"bus_public_key": "U" + "A" * 55},
    "/backends/apply": {"id": "b"},
    "/install-external": {"uri": "https://example.com/b.tar.gz", "name": "b"},
    "{node}/backends/install": {"backend": "b"},
    "{node}/backends/upgrade": {"backend": "b"},
    "{node}/backends/reinstall": {"backend": "b"},
    "{node}/backends/rollback": {"backend": "b"},
    "{node}/backends/delete": {"backend": "b"},
    "{node}/backends/start": {"backend": "b"},
    "{node}/backends/stop": {"all": True},
    "{node}/models/unload": {"model_name": "b"},
    "{node}/models/delete": {"model_name": "b"},
    "{node_id}/holdings": {"boot_id": "b" * 36},
    "{node_id}/prefetch": {"boot_id": "b" * 36},
    "{node_id}/backends": {"boot_id": "b" * 36, "backends": []},
    "/api/models/rename": {"names": {"a": "b"}},
    "/api/models/rollback/{name}": {"revision": 1},
    "/models/apply": {"id": "b"},
    "/models/import-uri": {"uri": "https://example.com/b.gguf"},
    "/api/models/install/{name}": {},
    "/api/rules/{name}": {},
    "/api/nodes/scheduling": {"model_name": "b"},
    "/api/models/config/{name}": {"backend": "b"},
    "/api/models/config-json/{name}": {"threads": 1},
    "/models/edit/{name}": {"backend": "b"},
    "/models/import": {"name": "b", "backend": "b"},
    "/api/fleet": {},
    "/register": {"name": "n", "credential": "c" * 40, "boot_id": "b" * 36, "address": "127.0.0.1:1"},
}


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    template: str

    def __str__(self) -> str:
        return f"{self.method} {self.template}"

    @property
    def is_for_nodes(self) -> bool:
        """Called by workers with their own credential."""
        return self.template.startswith(("/api/node/", "/api/files/results/"))

    @property
    def is_for_admins(self) -> bool:
        is_open = self.template in FOR_EVERYBODY or self.template.startswith(FOR_BROWSERS)
        return self.template.startswith(("/api/", "/backends", "/models")) and not self.is_for_nodes and not is_open

    @property
    def names_a_node(self) -> bool:
        return "{node}" in self.template or "{node_id}" in self.template

    def path(self, **values: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], _VALUES.get(match[1], SOME_ID)), self.template)

    @property
    def body(self) -> Any:
        if self.method not in ("POST", "PUT", "PATCH"):
            return None
        return next((body for ending, body in _BODIES.items() if self.template.endswith(ending)), None)


@cache
def make_described_app() -> FastAPI:
    """Return an application that serves nothing. All modules of tests share it: its description takes a second."""
    return create_app(None, FrontendMetrics())


def described() -> dict[str, Any]:
    """The OpenAPI description, which all callers share."""
    return make_described_app().openapi()


def operations() -> list[Operation]:
    return [Operation(method.upper(), path) for path, methods in described()["paths"].items() for method in methods]


def assert_envelope(answer: Any, *, code: str | None = None, kind: str | None = None) -> dict[str, Any]:
    """Every failing answer has this one form; returns its inside."""
    assert isinstance(answer, dict), answer
    assert set(answer) == {"error"}, answer
    error: dict[str, Any] = answer["error"]
    # Routes of OpenAI's API tell the parameter as well.
    assert {"code", "message", "hint", "type", "details", "request_id"} == set(error) - {"param"}, error
    assert re.fullmatch(r"[a-z][a-z0-9_]*", error["code"]), error
    assert error["message"], error
    assert error["message"].endswith((".", ":", "…")) or " " in error["message"], error
    assert error["hint"] is None or isinstance(error["hint"], str), error
    assert error["request_id"], error
    if code is not None:
        assert error["code"] == code, error
    if kind is not None:
        assert error["type"] == kind, error
    return error
