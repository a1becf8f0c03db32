"""Settings as `corral config show` and the frontend's own page print them: complete, and without a single secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from corral.app.redaction import MASK, redact_text
from corral.app.settings.base import ProcessSettings
from corral.app.settings.galleries import galleries_text
from corral.app.settings.loading import Loaded, Origin, S
from corral.app.settings.names import SettingDoc, document
from corral.app.settings.values import duration_text

_SECTIONS = {
    "addresses": ("host", "port", "public_url", "http_", "url", "address", "processes", "instance_id", "name"),
    "database": ("database", "postgres", "outbox_", "leader_"),
    "bus": ("nats_", "bus_"),
    "people": ("oidc_", "admin_key", "key"),
    "nodes": (
        *("node_", "heartbeat_", "liveness_", "auto_approve", "local_join", "join_", "labels", "vram_budget"),
        *("capability", "max_replicas", "frontend"),
    ),
    "requests": (
        *("request_", "upload_", "connections_", "trusted_", "first_byte", "between_bytes", "response_", "replica_"),
        *("queue_", "stop_grace", "cors_"),
    ),
    "models": (
        "load_",
        "unload_",
        "model_",
        "rules",
        "hub_",
        "library_",
        "shared_models",
        "disk_",
        "allow_private",
        "prefetch_",
    ),
    "engines": ("backend", "gallery_", "prefer_", "auto_upgrade", "registry_", "engine_", "require_", "operation_"),
    "watching": ("log_", "metrics_", "access_log", "otlp_", "trace_", "usage_"),
    "state": ("state_", "kept_", "home", "data_"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
    key: str
    environment: str
    # None: not set, and there is no default.
    value: str | None
    origin: str
    section: str
    sentence: str
    is_secret: bool


def redacted(loaded: Loaded[S]) -> list[ShownSetting]:
    """Every setting of the process with its value (masked when secret) and where it came from."""
    docs = document(type(loaded.settings))
    return [_shown(loaded.settings, doc, loaded.origins[doc.field]) for doc in docs]


def _shown(settings: ProcessSettings, doc: SettingDoc, origin: Origin) -> ShownSetting:
    text = text_of(doc, getattr(settings, doc.field))
    return ShownSetting(
        key=doc.key,
        environment=doc.environment,
        value=text,
        origin=str(origin),
        section=section_of(doc.key),
        sentence=doc.description,
        is_secret=doc.secret,
    )


def section_of(key: str) -> str:
    """What a setting is about, by its name: the first section that has a word for it."""
    return next((section for section, beginnings in _SECTIONS.items() if key.startswith(beginnings)), "general")


def text_of(doc: SettingDoc, value: object) -> str | None:
    """Return a value as it is shown: masked if it is secret, None if there is none."""
    if value is None:
        return None
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and doc.kind == "duration":
        return duration_text(value)
    return str(value) if isinstance(value, Path) else redact_text(_joined(value))


def _joined(value: object) -> str:
    """As it would be written in a variable."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={text}" for key, text in sorted(value.items()))
    return galleries_text(value) if isinstance(value, tuple) else str(value)
