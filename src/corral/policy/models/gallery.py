"""Entries of a model gallery: what can be had, and the configuration that an entry becomes.

    - name: smollm2-135m                 what it is called, and where its variants are: names of other entries
      size: 98MB                         what has to be fetched, roughly
      config: {backend: llama-cpp, …}    a configuration without a name, as `configuration.py` reads it
      variants: [{model: smollm2-135m-q8}]

The ancestor's entries are read too: `backend`, `files`, and of `overrides` (or an inline `config_file`) what has a
meaning here. An entry whose base is at an address (`url` alone) is left out with a warning: nobody has checked it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from corral.domain.errors import InvalidRequest
from corral.domain.model import ModelConfig
from corral.policy.gallery import wrong
from corral.policy.models.configuration import CALLS, check_name, from_mapping
from corral.policy.models.reading import Reader, merged

_KEYS = (
    "name", "description", "license", "icon", "urls", "tags", "size", "config", "variants", "aliases", "unverified",
    "backend", "files", "overrides", "config_file", "url",
)  # fmt: skip
_CODE = "bad_gallery"
VARIANTS_MAX = 50
# Memory beside the weights, for a variant of which only the size is known: caches and what an engine needs itself.
_OVERHEAD = 1.2
# The ancestor's use cases, in our words.
_CALLS_OF_ANCESTOR = {
    "chat": "chat",
    "completion": "completions",
    "embeddings": "embeddings",
    "transcript": "transcriptions",
    "tts": "speech",
    "rerank": "rerank",
}
_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "repeat_penalty", "seed", "stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    name: str
    gallery: str
    description: str = ""
    license: str = ""
    icon: str = ""
    urls: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    size_bytes: int | None = None
    # Nobody has run it on the machines that Corral is tested on.
    is_unverified: bool = False
    # Names of entries of the same gallery that are the same model for other hardware.
    variants: tuple[str, ...] = ()
    # A configuration, as it is written.
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.gallery}@{self.name}"

    @property
    def backend(self) -> str:
        return str(self.config.get("backend", ""))

    @property
    def serves(self) -> tuple[str, ...]:
        """As far as the entry says so itself."""
        said = self.config.get("serves") or [tag for tag in self.tags if tag in CALLS]
        return tuple(said)

    @property
    def memory_bytes(self) -> int | None:
        """What a replica takes, roughly; None is unknown."""
        config = from_mapping(self.config, name=self.name)
        known = config.vram_bytes or config.ram_bytes
        if known:
            return known
        return None if self.size_bytes is None else int(self.size_bytes * _OVERHEAD)


def read_entry(value: Any, gallery: str, number: int) -> ModelEntry:
    """One entry of an index; `InvalidRequest` with the code `bad_gallery` names what is wrong with it."""
    reader = Reader(value, f"{gallery}: entry {number}", _CODE)
    try:
        name = check_name(reader.text("name", required=True))
    except InvalidRequest as error:
        raise wrong(f"{gallery}: entry {number}", error.message.rstrip(".")) from error
    if "@" in name:
        raise wrong(f"{gallery}: {name}", "the name of an entry has no @")
    reader = Reader(value, f"{gallery}: {name}", _CODE)
    if "config" in reader.value:
        reader.allow(_KEYS)
    entry = ModelEntry(
        name=name,
        gallery=gallery,
        description=reader.text("description"),
        license=reader.text("license"),
        icon=reader.text("icon"),
        urls=reader.texts("urls"),
        tags=reader.texts("tags"),
        size_bytes=reader.size("size"),
        is_unverified=reader.value.get("unverified") is True,
        variants=_variants(reader, name),
        config=_config(reader),
    )
    try:
        from_mapping(entry.config, name=name)
    except InvalidRequest as error:
        raise wrong(f"{gallery}: {name}", error.message.rstrip(".")) from error
    return entry


def config_of(
    entry: ModelEntry,
    *,
    name: str = "",
    overrides: Mapping[str, Any] | None = None,
    base: ModelEntry | None = None,
    is_pinned: bool = False,
) -> ModelConfig:
    """The configuration that an entry becomes. `base` is the entry that was asked for, if this one is a variant."""
    asked = base or entry
    config = from_mapping(merged(entry.config, dict(overrides or {}) | {"name": None}), name=name or asked.name)
    return replace(
        config,
        description=config.description or asked.description,
        gallery=asked.id,
        variant=entry.name if asked.variants else "",
        is_variant_pinned=is_pinned,
    )


def _variants(reader: Reader, name: str) -> tuple[str, ...]:
    found = []
    for item in reader.items("variants"):
        said = item if isinstance(item, str) else Reader(item, reader.place("variants"), _CODE).text("model")
        if not said:
            raise reader.wrong("a variant does not say which model")
        found.append(said.rpartition("@")[2])
    if len(found) > VARIANTS_MAX:
        raise reader.wrong(f"it has more than {VARIANTS_MAX} variants")
    return tuple(one for one in dict.fromkeys(found) if one != name)


def _config(reader: Reader) -> dict[str, Any]:
    written = dict(reader.inner("config").value) if "config" in reader.value else _of_ancestor(reader)
    for key in ("backend", "files", "aliases"):
        if key in reader.value and key not in written:
            written[key] = reader.value[key]
    written.pop("name", None)
    if not written.get("backend") and reader.value.get("url"):
        raise reader.wrong("its base is at an address, which is not read; give it a config")
    return written


def _of_ancestor(reader: Reader) -> dict[str, Any]:
    """What the ancestor's settings mean here. What has no meaning is left out: it was for another engine."""
    base = reader.value.get("config_file")
    settings = merged(base if isinstance(base, Mapping) else {}, reader.inner("overrides").value)
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
        written["serves"] = [_CALLS_OF_ANCESTOR[call] for call in calls if call in _CALLS_OF_ANCESTOR]
    return written
