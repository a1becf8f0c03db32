"""Parses the index of a gallery: YAML to entries.

Guarantees: those of `documents.py`, and: an invalid entry is left out, with a warning that names it; a text without
a single valid entry is refused, so an error page never passes for an index.

Two dialects are read. Ours lists `versions`, each with a `source` and a `manifest`; an entry's own `manifest` fills
in the fields that a version leaves out. The older one has `uri`, `mirrors`, `version` and `sha256`. Both have
`capabilities` for a meta. Limit: signatures over indexes are not read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from corral.backends.documents import load_document
from corral.backends.sources import parse_source_uri
from corral.domain.backend import BackendVersion, GalleryEntry, Manifest, SourceKind
from corral.domain.errors import InvalidRequest
from corral.policy.catalog import check_safe_name, make_version_key
from corral.policy.gallery import find_manifest_problem, make_gallery_error, parse_manifest, parse_source

# A text of at least this size is parsed in a thread, not in the event loop.
LARGE_TEXT = 64 * 1024
ENTRIES_LIMIT = 5_000
VERSIONS_LIMIT = 500
WARNINGS_LIMIT = 50
# A name is a folder, a key and a part of texts; the columns hold 255 characters.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_VERSION_CHARACTERS = 128


class NamedEntry(Protocol):
    """Interface of an entry of a gallery index that has a name."""

    @property
    def name(self) -> str: ...


E = TypeVar("E", bound=NamedEntry)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendIndex:
    """Holds the readable entries of one backend gallery, and a warning for each that was left out."""

    entries: tuple[GalleryEntry, ...]
    # Sentences about entries that were left out.
    warnings: tuple[str, ...] = ()


def parse_index(text: str, gallery: str) -> BackendIndex:
    """Parse an index of backends. `InvalidRequest` with the code `bad_gallery` if it is no index or has no valid
    entry."""
    entries, warnings = parse_entries(text, gallery, _parse_entry)
    return BackendIndex(entries=entries, warnings=warnings)


def parse_entries(text: str, gallery: str, read: Callable[[Any, str, int], E]) -> tuple[tuple[E, ...], tuple[str, ...]]:
    """Return the valid entries of an index of any kind, and a sentence for each that was left out."""
    listed = load_document(text, gallery)
    if not isinstance(listed, list):
        raise make_gallery_error(gallery, "not an index: a list of entries was expected")
    if not listed:
        raise make_gallery_error(gallery, "the index is empty")
    if len(listed) > ENTRIES_LIMIT:
        raise make_gallery_error(gallery, f"the index has more than {ENTRIES_LIMIT} entries")
    entries: dict[str, E] = {}
    warnings: list[str] = []
    for number, value in enumerate(listed, start=1):
        try:
            entry = read(value, gallery, number)
            if entry.name.lower() in entries:
                raise make_gallery_error(f"{gallery}: {entry.name}", "a second entry has this name")
        except InvalidRequest as error:
            warnings.append(error.message)
            continue
        entries[entry.name.lower()] = entry
    if not entries:
        raise make_gallery_error(gallery, f"no entry of the index is valid; the first: {warnings[0].rstrip('.')}")
    return tuple(entries.values()), tuple(warnings[:WARNINGS_LIMIT])


def is_valid_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


async def read_index(text: str, gallery: str) -> BackendIndex:
    """Parse an index of any size without blocking the event loop."""
    if len(text) < LARGE_TEXT:
        return parse_index(text, gallery)
    return await asyncio.to_thread(parse_index, text, gallery)


def _parse_entry(value: Any, gallery: str, number: int) -> GalleryEntry:
    if not isinstance(value, Mapping):
        raise make_gallery_error(f"{gallery}: entry {number}", "is not a mapping")
    name = check_safe_name(_text(value, "name", f"{gallery}: entry {number}"))
    where = f"{gallery}: {name or f'entry {number}'}"
    if not is_valid_name(name):
        raise make_gallery_error(where, "the name is missing, or has characters that no folder should have")
    versions = _parse_versions(value, where)
    capabilities = {} if versions else _parse_capabilities(value, where)
    if not versions and not capabilities:
        raise make_gallery_error(where, "it has neither a source nor capabilities")
    alias = check_safe_name(_text(value, "alias", where))
    if alias and not is_valid_name(alias):
        raise make_gallery_error(where, "the alias has characters that no folder should have")
    return GalleryEntry(
        name=name,
        gallery=gallery,
        alias=alias,
        description=_text(value, "description", where),
        license=_text(value, "license", where),
        icon=_text(value, "icon", where),
        urls=_get_texts(value, "urls", where),
        tags=_get_texts(value, "tags", where),
        is_unverified=value.get("unverified") is True,
        capabilities=capabilities,
        versions=versions,
    )


def _parse_versions(value: Mapping[str, Any], where: str) -> tuple[BackendVersion, ...]:
    shared = _get_mapping(value, "manifest", where)
    listed = value.get("versions")
    if listed is None:
        return (_parse_older_version(value, shared, where),) if value.get("uri") else ()
    if not isinstance(listed, Sequence) or isinstance(listed, str) or len(listed) > VERSIONS_LIMIT:
        raise make_gallery_error(where, f"versions is not a list of at most {VERSIONS_LIMIT}")
    found: dict[str, BackendVersion] = {}
    for item in listed:
        version = _parse_version(item, shared, where)
        if version.version in found:
            raise make_gallery_error(where, f"the version {version.version!r} is listed twice")
        found[version.version] = version
    return tuple(sorted(found.values(), key=lambda one: make_version_key(one.version), reverse=True))


def _parse_version(item: Any, shared: Mapping[str, Any], where: str) -> BackendVersion:
    if not isinstance(item, Mapping):
        raise make_gallery_error(where, "a version is not a mapping")
    version = _check_version(_text(item, "version", where), where)
    path = f"{where} {version}".rstrip()
    source = _get_mapping(item, "source", path)
    if not source:
        raise make_gallery_error(path, "source is missing")
    manifest = {**shared, **_get_mapping(item, "manifest", path)}
    read = parse_source(source, f"{path}: source")
    if read.kind is SourceKind.OCI:
        # Checked and spelled like an address of the older dialect.
        parsed_again = parse_source_uri(read.uri, f"{path}: source", mirrors=read.mirrors)
        if parsed_again.kind is not SourceKind.OCI:
            raise make_gallery_error(path, f"{read.uri!r} is not an image of a registry")
        read = parse_source(
            {**source, "uri": parsed_again.uri, "mirrors": list(parsed_again.mirrors)}, f"{path}: source"
        )
    return BackendVersion(version=version, source=read, manifest=_parse_manifest(manifest, path))


def _parse_older_version(value: Mapping[str, Any], manifest: Mapping[str, Any], where: str) -> BackendVersion:
    return BackendVersion(
        version=_check_version(_text(value, "version", where), where),
        source=parse_source_uri(
            _text(value, "uri", where),
            where,
            mirrors=_get_texts(value, "mirrors", where),
            sha256=_text(value, "sha256", where),
        ),
        manifest=_parse_manifest(manifest, where),
    )


def _parse_manifest(value: Mapping[str, Any], where: str) -> Manifest:
    """Parse a manifest, and raise for one that could not take its options. Without a command the package brings its
    own."""
    manifest = parse_manifest(value, f"{where}: manifest")
    problem = find_manifest_problem(manifest)
    if manifest.command and problem:
        raise make_gallery_error(where, problem)
    return manifest


def _check_version(version: str, where: str) -> str:
    if len(version) > _VERSION_CHARACTERS or not version.isprintable():
        raise make_gallery_error(where, "the version is too long, or has control characters")
    return version


def _parse_capabilities(value: Mapping[str, Any], where: str) -> dict[str, str]:
    found = _get_mapping(value, "capabilities", where)
    chosen: dict[str, str] = {}
    for capability in found:
        name = check_safe_name(_text(found, capability, f"{where}: capabilities"))
        if not _WORD.fullmatch(str(capability)) or not is_valid_name(name):
            raise make_gallery_error(where, "capabilities maps one plain word to the name of an entry")
        chosen[str(capability)] = name
    return chosen


def _get_mapping(value: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    found = value.get(key)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise make_gallery_error(where, f"{key} is not a mapping")
    return found


def _text(value: Mapping[str, Any], key: str, where: str) -> str:
    found = value.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        # An unquoted 1.10 is a number to YAML, and would become 1.1.
        raise make_gallery_error(where, f"{key} is not a text; put it in quotes")
    return found.strip()


def _get_texts(value: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = value.get(key)
    if found is None:
        return ()
    if isinstance(found, str):
        return (found.strip(),) if found.strip() else ()
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise make_gallery_error(where, f"{key} is not a list of texts")
    return tuple(item.strip() for item in found if item.strip())
