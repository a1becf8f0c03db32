"""Reads entries of a model gallery, and makes the configuration that an entry becomes.

    - name: smollm2-135m                 what it is called, and where its variants are: names of other entries
      size: 98MB                         what has to be fetched, roughly
      config: {backend: llama-cpp, …}    a configuration without a name, as `configuration.py` reads it
      variants: [{model: smollm2-135m-q8}]

LocalAI's entries are read too: `backend`, `files`, and of `overrides` (or an inline `config_file`) what has a
meaning here. An entry whose base is at an address (`url` alone) is left out with a warning: it is not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from corral.domain.errors import InvalidRequest
from corral.domain.model import ModelConfig
from corral.policy.gallery import make_gallery_error
from corral.policy.models.configuration import CALLS, check_name, from_mapping
from corral.policy.models.mapping_reader import MappingReader, merge_patch

_KEYS = (
    "name", "description", "license", "icon", "urls", "tags", "size", "config", "variants", "aliases", "unverified",
    "backend", "files", "overrides", "config_file", "url",
)  # fmt: skip
_CODE = "bad_gallery"
VARIANTS_MAX = 50
# Memory beside the weights, for a variant of which only the size is known: caches and the engine itself.
_OVERHEAD = 1.2
# LocalAI's use cases, in our words.
_CALLS_OF_LOCALAI = {
    "chat": "chat",
    "completion": "completions",
    "embeddings": "embeddings",
    "transcript": "transcriptions",
    "tts": "speech",
    "rerank": "rerank",
}
_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "repeat_penalty", "seed", "stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGalleryEntry:
    """Describes a model that a gallery offers: its sources, variants, size, and the configuration that it becomes."""

    name: str
    gallery: str
    description: str = ""
    license: str = ""
    icon: str = ""
    urls: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    size_bytes: int | None = None
    # True if it was never run on the machines that Corral is tested on.
    is_unverified: bool = False
    # Names of entries of the same gallery that are the same model for other hardware.
    variants: tuple[str, ...] = ()
    # The configuration as it is written.
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.gallery}@{self.name}"

    @property
    def backend(self) -> str:
        return str(self.config.get("backend", ""))

    @property
    def serves(self) -> tuple[str, ...]:
        """Return the calls that the entry itself lists."""
        calls = self.config.get("serves") or [tag for tag in self.tags if tag in CALLS]
        return tuple(calls)

    @property
    def memory_bytes(self) -> int | None:
        """Return the approximate memory of a replica; None is unknown."""
        config = from_mapping(self.config, name=self.name)
        known = config.vram_bytes or config.ram_bytes
        if known:
            return known
        return None if self.size_bytes is None else int(self.size_bytes * _OVERHEAD)


def read_entry(value: Any, gallery: str, number: int) -> ModelGalleryEntry:
    """Parse one entry of an index; `InvalidRequest` with the code `bad_gallery` names the problem."""
    reader = MappingReader(value, f"{gallery}: entry {number}", _CODE)
    try:
        name = check_name(reader.read_text("name", required=True))
    except InvalidRequest as error:
        raise make_gallery_error(f"{gallery}: entry {number}", error.message.rstrip(".")) from error
    if "@" in name:
        raise make_gallery_error(f"{gallery}: {name}", "the name of an entry has no @")
    reader = MappingReader(value, f"{gallery}: {name}", _CODE)
    if "config" in reader.value:
        reader.check_keys(_KEYS)
    entry = ModelGalleryEntry(
        name=name,
        gallery=gallery,
        description=reader.read_text("description"),
        license=reader.read_text("license"),
        icon=reader.read_text("icon"),
        urls=reader.read_texts("urls"),
        tags=reader.read_texts("tags"),
        size_bytes=reader.read_size("size"),
        is_unverified=reader.value.get("unverified") is True,
        variants=_read_variants(reader, name),
        config=_read_config(reader),
    )
    try:
        from_mapping(entry.config, name=name)
    except InvalidRequest as error:
        raise make_gallery_error(f"{gallery}: {name}", error.message.rstrip(".")) from error
    return entry


def make_config(
    entry: ModelGalleryEntry,
    *,
    name: str = "",
    overrides: Mapping[str, Any] | None = None,
    base: ModelGalleryEntry | None = None,
    is_pinned: bool = False,
) -> ModelConfig:
    """Return the configuration that an entry becomes. `base` is the requested entry, if this one is a variant."""
    requested = base or entry
    config = from_mapping(
        merge_patch(entry.config, dict(overrides or {}) | {"name": None}), name=name or requested.name
    )
    return replace(
        config,
        description=config.description or requested.description,
        gallery=requested.id,
        variant=entry.name if requested.variants else "",
        is_variant_pinned=is_pinned,
    )


def _read_variants(reader: MappingReader, name: str) -> tuple[str, ...]:
    found = []
    for item in reader.read_items("variants"):
        listed = (
            item
            if isinstance(item, str)
            else MappingReader(item, reader.describe_place("variants"), _CODE).read_text("model")
        )
        if not listed:
            raise reader.make_error("a variant does not say which model")
        found.append(listed.rpartition("@")[2])
    if len(found) > VARIANTS_MAX:
        raise reader.make_error(f"it has more than {VARIANTS_MAX} variants")
    return tuple(one for one in dict.fromkeys(found) if one != name)


def _read_config(reader: MappingReader) -> dict[str, Any]:
    written = dict(reader.read_inner("config").value) if "config" in reader.value else _read_localai_config(reader)
    for key in ("backend", "files", "aliases"):
        if key in reader.value and key not in written:
            written[key] = reader.value[key]
    written.pop("name", None)
    if written.get("mcp"):
        # The author of a gallery would run programs on our nodes.
        raise reader.make_error("it declares MCP servers, which only an admin of the cluster may do")
    if not written.get("backend") and reader.value.get("url"):
        raise reader.make_error("its base is at an address, which is not read; give it a config")
    return written


def _read_localai_config(reader: MappingReader) -> dict[str, Any]:
    """Translate LocalAI's settings. A setting without an equivalent is left out: it was for another engine."""
    base = reader.value.get("config_file")
    settings = merge_patch(base if isinstance(base, Mapping) else {}, reader.read_inner("overrides").value)
    parameters = settings.get("parameters")
    parameters = parameters if isinstance(parameters, Mapping) else {}
    written: dict[str, Any] = {}
    for key in ("backend", "description", "threads"):
        if settings.get(key):
            written[key] = settings[key]
    if isinstance(parameters.get("model"), str) and "://" not in parameters["model"]:
        written["entry"] = parameters["model"]
    if isinstance(settings.get("context_size"), int):
        written["options"] = {"context_size": settings["context_size"]}
    defaults = {key: parameters[key] for key in _SAMPLING if parameters.get(key) is not None}
    if settings.get("system_prompt"):
        defaults["system"] = settings["system_prompt"]
    if defaults:
        written["defaults"] = defaults
    calls = settings.get("known_usecases")
    if isinstance(calls, list):
        written["serves"] = [_CALLS_OF_LOCALAI[call] for call in calls if call in _CALLS_OF_LOCALAI]
    return written
