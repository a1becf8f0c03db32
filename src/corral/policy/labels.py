"""Validates labels, computes the labels of the machine itself, and matches selectors with nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from corral.domain.errors import InvalidRequest

KEY_LENGTH_MAX = 128
VALUE_LENGTH_MAX = 255
LABELS_MAX = 64  # per node and source: a label list is for people
GIB = 1024**3
_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?", re.ASCII)
# Keys with these prefixes are the machine's own: neither workers nor admins set them.
RESERVED_PREFIXES = ("node.", "gpu.")
AUTOMATIC_KEYS = frozenset({"node.name", "node.replica-slots", "gpu.vendor", "gpu.vram"})
_VRAM_BUCKETS = ((80, "80GB+"), (48, "48GB"), (24, "24GB"), (16, "16GB"), (8, "8GB"))


def check_label(key: str, value: str) -> None:
    if len(key) > KEY_LENGTH_MAX or not _KEY.fullmatch(key):
        raise InvalidRequest(
            f"{key[:60]!r} is not a label key.",
            hint=f"Up to {KEY_LENGTH_MAX} letters, digits, '.', '_', '-' or '/'; a letter or digit at both ends.",
            code="bad_label",
        )
    if len(value) > VALUE_LENGTH_MAX or not value.isprintable():
        raise InvalidRequest(
            f"The value of label {key} is not allowed.",
            hint=f"Up to {VALUE_LENGTH_MAX} printable characters.",
            code="bad_label",
        )


def check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > LABELS_MAX:
        raise InvalidRequest(f"{len(labels)} labels are too many.", hint=f"At most {LABELS_MAX}.", code="bad_label")
    for key, value in labels.items():
        check_label(key, value)


def is_reserved(key: str) -> bool:
    return key.startswith(RESERVED_PREFIXES)


def check_not_reserved(keys: Iterable[str]) -> None:
    """Raise `InvalidRequest` for the first key that only the machine itself sets."""
    for key in keys:
        if is_reserved(key):
            raise InvalidRequest(
                f"Label {key} cannot be set: Corral sets it automatically.",
                hint="Keys that begin with node. or gpu. are the machine's own; choose another key.",
                code="label_reserved",
            )


def format_labels(labels: Mapping[str, str]) -> str:
    """Return labels as people write them."""
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def make_automatic_labels(*, name: str, slots: int, gpu_vendor: str | None, total_vram: int | None) -> dict[str, str]:
    """Return the labels that every node has automatically."""
    labels = {"node.name": name, "node.replica-slots": str(max(1, slots))}
    if gpu_vendor:
        labels["gpu.vendor"] = gpu_vendor
    if total_vram:
        labels["gpu.vram"] = _find_vram_bucket(total_vram)
    return labels


def _find_vram_bucket(total_vram: int) -> str:
    whole_gib = total_vram // GIB
    for floor, word in _VRAM_BUCKETS:
        if whole_gib >= floor:
            return word
    return f"{whole_gib}GB"


def parse_selector(raw: object) -> dict[str, str]:
    """Parse a selector from JSON (an object of strings) or from text (`key=value,other=value`). Anything else is
    refused.

    An unreadable selector must never be taken for "no selector": that would open a model to every node.
    """
    if isinstance(raw, str):
        return _parse_selector_text(raw)
    if not isinstance(raw, Mapping):
        raise InvalidRequest("A selector is an object of label keys and values.", code="bad_selector")
    selector: dict[str, str] = {}
    for key, value in raw.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidRequest("Keys and values of a selector are strings.", code="bad_selector")
        check_label(key, value)
        selector[key] = value
    return selector


def _parse_selector_text(text: str) -> dict[str, str]:
    selector: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        key, equals, value = part.partition("=")
        if not equals:
            raise InvalidRequest(
                f"{part.strip()[:60]!r} is not key=value.",
                hint="For example gpu.vendor=nvidia,zone=b",
                code="bad_selector",
            )
        check_label(key.strip(), value.strip())
        selector[key.strip()] = value.strip()
    return selector


def matches_labels(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether all pairs of the selector are equal; further labels do not matter; no pairs means every node."""
    return all(labels.get(key) == value for key, value in selector.items())
