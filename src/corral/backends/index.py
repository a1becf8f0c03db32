"""The index of a gallery: YAML to entries.

Guarantees: those of `documents.py`, and: an entry that is wrong is left out, with a warning that names it; a text
without a single good entry is refused, so an error page never passes for an index.

Two dialects are read. Ours lists `versions`, each with a `source` and a `manifest`; an entry's own `manifest` fills in
the fields that a version leaves out. The older one has `uri`, `mirrors`, `version` and `sha256`. Both have
`capabilities` for a meta. Limit: signatures over indexes are not read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from corral.backends.documents import load_document
from corral.backends.sources import source_of
from corral.domain.backend import GalleryEntry, Manifest, SourceKind, Version
from corral.domain.errors import InvalidRequest
from corral.policy.catalog import safe_name
from corral.policy.gallery import manifest_problem, parse_manifest, parse_source, wrong
from corral.policy.versions import version_key

# A text of this size is read beside the event loop instead of in it.
LARGE_TEXT = 64 * 1024
ENTRIES_LIMIT = 5_000
VERSIONS_LIMIT = 500
WARNINGS_LIMIT = 50
# A name is a folder, a key and a part of texts; the columns hold 255.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_VERSION_CHARACTERS = 128


class Named(Protocol):
    @property
    def name(self) -> str: ...


E = TypeVar("E", bound=Named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    entries: tuple[GalleryEntry, ...]
    # Sentences about entries that were left out.
    warnings: tuple[str, ...] = ()


def parse_index(text: str, gallery: str) -> Index:
    """`InvalidRequest` with the code `bad_gallery` if this is no index or nothing in it is good."""
    entries, warnings = parse_entries(text, gallery, _entry)
    return Index(entries=entries, warnings=warnings)


def parse_entries(text: str, gallery: str, read: Callable[[Any, str, int], E]) -> tuple[tuple[E, ...], tuple[str, ...]]:
    """The good entries of an index, whatever they are about, and a sentence for each that was left out."""
    listed = load_document(text, gallery)
    if not isinstance(listed, list):
        raise wrong(gallery, "this is not an index: a list of entries was expected")
    if not listed:
        raise wrong(gallery, "the index is empty")
    if len(listed) > ENTRIES_LIMIT:
        raise wrong(gallery, f"the index has more than {ENTRIES_LIMIT} entries")
    entries: dict[str, E] = {}
    warnings: list[str] = []
    for number, value in enumerate(listed, start=1):
        try:
            entry = read(value, gallery, number)
            if entry.name.lower() in entries:
                raise wrong(f"{gallery}: {entry.name}", "a second entry has this name")
        except InvalidRequest as error:
            warnings.append(error.message)
            continue
        entries[entry.name.lower()] = entry
    if not entries:
        raise wrong(gallery, f"no entry of the index is good; the first: {warnings[0].rstrip('.')}")
    return tuple(entries.values()), tuple(warnings[:WARNINGS_LIMIT])


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


async def read_index(text: str, gallery: str) -> Index:
    """The same for a text of any size, without holding up the event loop."""
    if len(text) < LARGE_TEXT:
        return parse_index(text, gallery)
    return await asyncio.to_thread(parse_index, text, gallery)


def _entry(value: Any, gallery: str, number: int) -> GalleryEntry:
    if not isinstance(value, Mapping):
        raise wrong(f"{gallery}: entry {number}", "is not a mapping")
    name = safe_name(_text(value, "name", f"{gallery}: entry {number}"))
    where = f"{gallery}: {name or f'entry {number}'}"
    if not is_name(name):
        raise wrong(where, "the name is missing, or has characters that no folder should have")
    versions = _versions(value, where)
    capabilities = {} if versions else _capabilities(value, where)
    if not versions and not capabilities:
        raise wrong(where, "it has neither a source nor capabilities")
    alias = safe_name(_text(value, "alias", where))
    if alias and not is_name(alias):
        raise wrong(where, "the alias has characters that no folder should have")
    return GalleryEntry(
        name=name,
        gallery=gallery,
        alias=alias,
        description=_text(value, "description", where),
        license=_text(value, "license", where),
        icon=_text(value, "icon", where),
        urls=_texts(value, "urls", where),
        tags=_texts(value, "tags", where),
        is_unverified=value.get("unverified") is True,
        capabilities=capabilities,
        versions=versions,
    )


def _versions(value: Mapping[str, Any], where: str) -> tuple[Version, ...]:
    shared = _mapping(value, "manifest", where)
    listed = value.get("versions")
    if listed is None:
        return (_older_version(value, shared, where),) if value.get("uri") else ()
    if not isinstance(listed, Sequence) or isinstance(listed, str) or len(listed) > VERSIONS_LIMIT:
        raise wrong(where, f"versions is not a list of at most {VERSIONS_LIMIT}")
    found: dict[str, Version] = {}
    for item in listed:
        version = _version(item, shared, where)
        if version.version in found:
            raise wrong(where, f"the version {version.version!r} is there twice")
        found[version.version] = version
    return tuple(sorted(found.values(), key=lambda one: version_key(one.version), reverse=True))


def _version(item: Any, shared: Mapping[str, Any], where: str) -> Version:
    if not isinstance(item, Mapping):
        raise wrong(where, "a version is not a mapping")
    version = _checked_version(_text(item, "version", where), where)
    place = f"{where} {version}".rstrip()
    source = _mapping(item, "source", place)
    if not source:
        raise wrong(place, "source is missing")
    manifest = {**shared, **_mapping(item, "manifest", place)}
    read = parse_source(source, f"{place}: source")
    if read.kind is SourceKind.OCI:
        # Checked like an address of the older dialect, and spelled the same.
        again = source_of(read.uri, f"{place}: source", mirrors=read.mirrors)
        if again.kind is not SourceKind.OCI:
            raise wrong(place, f"{read.uri!r} is not an image of a registry")
        read = parse_source({**source, "uri": again.uri, "mirrors": list(again.mirrors)}, f"{place}: source")
    return Version(version=version, source=read, manifest=_manifest(manifest, place))


def _older_version(value: Mapping[str, Any], manifest: Mapping[str, Any], where: str) -> Version:
    return Version(
        version=_checked_version(_text(value, "version", where), where),
        source=source_of(
            _text(value, "uri", where),
            where,
            mirrors=_texts(value, "mirrors", where),
            sha256=_text(value, "sha256", where),
        ),
        manifest=_manifest(manifest, where),
    )


def _manifest(value: Mapping[str, Any], where: str) -> Manifest:
    """Read a manifest and refuse one that could not take its options. Without a command the package brings its own."""
    manifest = parse_manifest(value, f"{where}: manifest")
    problem = manifest_problem(manifest)
    if manifest.command and problem:
        raise wrong(where, problem)
    return manifest


def _checked_version(version: str, where: str) -> str:
    if len(version) > _VERSION_CHARACTERS or not version.isprintable():
        raise wrong(where, "the version is too long, or has control characters")
    return version


def _capabilities(value: Mapping[str, Any], where: str) -> dict[str, str]:
    found = _mapping(value, "capabilities", where)
    chosen: dict[str, str] = {}
    for capability in found:
        name = safe_name(_text(found, capability, f"{where}: capabilities"))
        if not _WORD.fullmatch(str(capability)) or not is_name(name):
            raise wrong(where, "capabilities maps one plain word to the name of an entry")
        chosen[str(capability)] = name
    return chosen


def _mapping(value: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    found = value.get(key)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise wrong(where, f"{key} is not a mapping")
    return found


def _text(value: Mapping[str, Any], key: str, where: str) -> str:
    found = value.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        # An unquoted 1.10 is a number to YAML, and would become 1.1.
        raise wrong(where, f"{key} is not a text; put it in quotes")
    return found.strip()


def _texts(value: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = value.get(key)
    if found is None:
        return ()
    if isinstance(found, str):
        return (found.strip(),) if found.strip() else ()
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise wrong(where, f"{key} is not a list of texts")
    return tuple(item.strip() for item in found if item.strip())
