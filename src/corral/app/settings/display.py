"""Formats settings for `corral config show` and the page: complete, with secrets masked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from corral.app.redaction import MASK, redact_text
from corral.app.settings.base import ProcessSettings
from corral.app.settings.galleries import format_galleries
from corral.app.settings.loader import LoadedSettings, S, SettingOrigin
from corral.app.settings.names import SettingDoc, describe_settings
from corral.domain.duration import format_duration

_SECTIONS = {
    "addresses": ("host", "port", "public_url", "http_", "url", "address", "processes", "instance_id", "name"),
    "database": ("database", "postgres", "outbox_", "leader_"),
    "bus": ("nats_", "bus_"),
    "people": ("oidc_", "admin_key", "secrets_key", "key"),
    "nodes": (
        *("node_", "heartbeat_", "liveness_", "auto_approve", "local_join", "join_", "labels", "vram_budget"),
        *("capability", "max_replicas", "max_runs", "agent_", "frontend"),
    ),
    "requests": (
        *("request_", "upload_", "connections_", "trusted_", "first_byte", "between_bytes", "response_", "replica_"),
        *("queue_", "stop_grace", "cors_", "mcp_", "run_", "thread_", "memory_", "artifact_", "webhook_"),
        "embedding_",
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
        "allow_inline",
        "prefetch_",
    ),
    "engines": ("backend", "gallery_", "prefer_", "auto_upgrade", "registry_", "engine_", "require_", "operation_"),
    "watching": ("log_", "metrics_", "access_log", "otlp_", "trace_", "usage_"),
    "state": ("state_", "kept_", "home", "data_"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayedSetting:
    """One setting as `corral config` displays it: its value with secrets masked, and where it came from."""

    key: str
    environment: str
    # None if the setting is not set and has no default.
    value: str | None
    origin: str
    section: str
    sentence: str
    is_secret: bool


def redact_settings(loaded: LoadedSettings[S]) -> list[DisplayedSetting]:
    """Return every setting of the process with its value, masked if it is secret, and where it came from."""
    docs = describe_settings(type(loaded.settings))
    return [_display_setting(loaded.settings, doc, loaded.origins[doc.field]) for doc in docs]


def _display_setting(settings: ProcessSettings, doc: SettingDoc, origin: SettingOrigin) -> DisplayedSetting:
    text = format_value(doc, getattr(settings, doc.field))
    return DisplayedSetting(
        key=doc.key,
        environment=doc.environment,
        value=text,
        origin=str(origin),
        section=find_section(doc.key),
        sentence=doc.description,
        is_secret=doc.secret,
    )


def find_section(key: str) -> str:
    """Return the section of a setting: the first one with a word that occurs in its name."""
    return next((section for section, beginnings in _SECTIONS.items() if key.startswith(beginnings)), "general")


def format_value(doc: SettingDoc, value: object) -> str | None:
    """Return a value as it is shown: masked if it is secret, None if there is none."""
    if value is None:
        return None
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and doc.kind == "duration":
        return format_duration(value)
    return str(value) if isinstance(value, Path) else redact_text(_format_plain_value(value))


def _format_plain_value(value: object) -> str:
    """Return the value as it would be written in a variable."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={text}" for key, text in sorted(value.items()))
    return format_galleries(value) if isinstance(value, tuple) else str(value)
