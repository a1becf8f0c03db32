"""A model's configuration as YAML and JSON, the part of it that an engine notices, and the diff of two of them.

    name: chat                                    files:
    backend: llama-cpp                              - path: model.gguf
    entry: model.gguf                                 uri: https://host/model.gguf      (or `parts`, joined in order)
    options: {context_size: 8192}                     sha256: …
    vram: 12GB                                    defaults: {temperature: 0.2, system: You are brief.}
    mcp: {servers: [time]}                        agent: {max_iterations: 10}

Guarantee: what `to_mapping` writes, `from_mapping` reads to the same configuration; a key that is not known is an error
that names the one that was meant, never something that is silently left out. `to_mapping` leaves out what is as it
would be anyway, so a file stays as short as it was written. Limit: options are checked by the engine's own manifest
when the model is loaded; here they are names and texts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from corral.domain.errors import InvalidRequest
from corral.domain.model import AttachedAdapter, FilePart, ModelConfig, ModelFile, StoredFile
from corral.policy.models.mapping_reader import MappingReader, as_text, merge_patch
from corral.policy.models.mcp_servers import read_mcp_config, to_mcp_mapping
from corral.policy.models.tool_loop import KEYS as TOOL_LOOP_KEYS
from corral.policy.models.tool_loop import read_tool_loop, to_tool_loop_mapping

CODE = "bad_model"
NAME_MAX = 255
PATH_MAX = 1024
FILES_MAX = 1000
ALIASES_MAX = 100
DEFAULTS_MAX_CHARACTERS = 64 * 1024
# The option by which a worker gets the adapters of a model; no configuration has it.
ADAPTERS_OPTION = "adapters"
# The file of an adapter whose address has no name in it.
ADAPTER_NAME = "adapter.gguf"
CALLS = ("chat", "completions", "embeddings", "transcriptions", "speech", "rerank", "images")
SCHEMES = ("https", "http", "file", "hf", "oci", "ollama", "wheel", "upload")
_KEYS = (
    "name", "description", "backend", "files", "entry", "options", "threads", "vram", "ram", "load_timeout", "groups",
    "aliases", "defaults", "serves", "enabled", "pinned", "idle", "gallery", "variant", "variant_pinned",
    "mcp", "agent", "base", "adapter",
)  # fmt: skip
# What an adapter shares with its base.
_OF_BASE = frozenset({"entry", "options", "threads", "vram", "ram", "load_timeout", "groups", "pinned"})
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_HUB = re.compile(r"hf://[^/\s]+/[^/@\s]+(?:@[^/\s]+)?(?P<path>/.+)?")


def from_mapping(value: object, *, name: str = "") -> ModelConfig:
    """Parse a configuration that a person wrote. `name` is for a name that is given elsewhere; a different one is
    refused."""
    reader = MappingReader(value, "The model", CODE)
    given_name = reader.value.get("name")
    if name and given_name not in (None, name):
        raise reader.make_error(
            f"the name in it is {str(given_name)[:80]!r}, but {name[:80]!r} is expected",
            "Renaming is a call of its own.",
        )
    checked = check_name(name or reader.read_text("name", required=True))
    reader = MappingReader(value, f"Model {checked}", CODE)
    reader.check_keys(_KEYS)
    serves = reader.read_texts("serves")
    reader.check_words("serves", serves, CALLS)
    files = _parse_files(reader)
    base, adapter, files = _parse_adapter(reader, files)
    return ModelConfig(
        name=checked,
        description=reader.read_text("description"),
        # That of the base is entered when an adapter is saved.
        backend=reader.read_text("backend", longest=NAME_MAX) if base else _parse_backend(reader),
        files=files,
        entry=_parse_path(reader, reader.read_text("entry"), "entry") if reader.value.get("entry") else "",
        options=_parse_options(reader),
        threads=reader.read_integer("threads", least=1, most=4096),
        vram_bytes=reader.read_size("vram"),
        ram_bytes=reader.read_size("ram"),
        load_timeout_s=reader.read_seconds("load_timeout"),
        groups=reader.read_texts("groups"),
        aliases=_parse_aliases(reader, checked),
        defaults=_parse_defaults(reader),
        serves=serves,
        is_enabled=reader.read_flag("enabled", default=True),
        is_pinned=reader.read_flag("pinned", default=False),
        idle_s=reader.read_seconds("idle", zero=True),
        gallery=reader.read_text("gallery", longest=NAME_MAX * 2),
        variant=reader.read_text("variant", longest=NAME_MAX),
        is_variant_pinned=reader.read_flag("variant_pinned", default=False),
        mcp=read_mcp_config(reader),
        tool_loop=read_tool_loop(reader),
        base=base,
        adapter=adapter,
    )


def from_stored(value: Mapping[str, Any]) -> ModelConfig:
    """Parse what `to_mapping` wrote, also by a newer version: settings that this one does not know are left out."""
    known = {key: item for key, item in value.items() if key in _KEYS}
    if isinstance(loop := known.get("agent"), Mapping):
        known["agent"] = {key: item for key, item in loop.items() if key in TOOL_LOOP_KEYS}
    return from_mapping(known)


def to_mapping(config: ModelConfig) -> dict[str, Any]:
    """Return the configuration as it is written: in a fixed order, without default values."""
    written: dict[str, Any] = {
        "name": config.name,
        "description": config.description,
        "backend": config.backend,
        "files": [to_file_mapping(file) for file in config.files],
        "entry": config.entry,
        "options": dict(sorted(config.options.items())),
        "threads": config.threads,
        "vram": _format_size(config.vram_bytes),
        "ram": _format_size(config.ram_bytes),
        "load_timeout": _format_number(config.load_timeout_s),
        "groups": list(config.groups),
        "aliases": list(config.aliases),
        "defaults": dict(config.defaults),
        "serves": list(config.serves),
        "enabled": None if config.is_enabled else False,
        "pinned": config.is_pinned or None,
        "idle": _format_number(config.idle_s),
        "gallery": config.gallery,
        "variant": config.variant,
        "variant_pinned": config.is_variant_pinned or None,
        "mcp": to_mcp_mapping(config.mcp),
        "agent": to_tool_loop_mapping(config.tool_loop),
        "base": config.base,
        "adapter": config.adapter,
    }
    return {key: value for key, value in written.items() if value is not None and value not in ("", [], {})}


def apply_patch(config: ModelConfig, change: object) -> ModelConfig:
    """Apply a change to a configuration: mappings key by key, null deletes a key. The name stays."""
    if not isinstance(change, Mapping):
        raise InvalidRequest("The change is not a mapping of names to values.", code=CODE)
    if change.get("name", config.name) != config.name:
        raise InvalidRequest(
            "A change cannot rename a model.", hint="Renaming is a call of its own: POST /api/models/rename.", code=CODE
        )
    return from_mapping(merge_patch(to_mapping(config), change), name=config.name)


def check_name(name: str) -> str:
    """Return a name that people and programs can send: printable, without blanks at its ends. Raises otherwise."""
    if not 1 <= len(name) <= NAME_MAX or not name.isprintable() or name != name.strip() or name in (".", ".."):
        raise InvalidRequest(
            f"{name[:60]!r} is not a name for a model.",
            hint=f"1 to {NAME_MAX} printable characters, none of them a blank at an end.",
            code="bad_model_name",
        )
    return name


def compute_run_hash(
    config: ModelConfig, files: Sequence[StoredFile] | None = None, adapters: Sequence[AttachedAdapter] = ()
) -> str:
    """Return a hash of what an engine notices: backend, entry, options, threads, the contents of the files, and the
    adapters that it loads.

    Contents count where they are known, sources where they are not. A file with a given sha256 counts the same
    before and after it was fetched, so fetching changes nothing.
    """
    hashed_fields = {
        "backend": config.backend,
        "entry": config.entry,
        "options": dict(config.options),
        "threads": config.threads,
        "files": _list_contents(config, files),
    }
    if adapters:
        hashed_fields["adapters"] = [
            [one.model, one.path, sorted([file.path, file.sha256] for file in one.files)] for one in adapters
        ]
    text = json.dumps(hashed_fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def list_sources(config: ModelConfig) -> tuple[ModelFile, ...]:
    """Return the sources of the files in a canonical order: the same sources give the same files."""
    return tuple(sorted(config.files, key=lambda file: file.path))


def diff(old: ModelConfig | None, new: ModelConfig | None) -> list[str]:
    """Return the differences, one line for each setting: `options.context_size: 4096 -> 8192`."""
    old_values = _flatten(to_mapping(old)) if old is not None else {}
    after = _flatten(to_mapping(new)) if new is not None else {}
    return list_changes(old_values, after)


def list_changes(previous: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    lines = []
    for key in [*previous, *(key for key in current if key not in previous)]:
        if key not in current:
            lines.append(f"- {key}: {previous[key]}")
        elif key not in previous:
            lines.append(f"+ {key}: {current[key]}")
        elif previous[key] != current[key]:
            lines.append(f"~ {key}: {previous[key]} -> {current[key]}")
    return lines


def list_mapping_changes(previous: Mapping[str, Any] | None, current: Mapping[str, Any]) -> list[str]:
    """Return the differences of two configurations as they are written, one line for each value. None: there was
    none."""
    return list_changes({} if previous is None else _flatten(previous), _flatten(current))


def _flatten(value: Any, path: str = "") -> dict[str, str]:
    if isinstance(value, Mapping) and value:
        return {
            key: text
            for name, item in value.items()
            for key, text in _flatten(item, f"{path}.{name}" if path else str(name)).items()
        }
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return {
            key: text
            for number, item in enumerate(value)
            for key, text in _flatten(item, f"{path}[{item.get('path', number)}]").items()
        }
    return {path: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)}


def _list_contents(config: ModelConfig, files: Sequence[StoredFile] | None) -> list[Any]:
    if files is not None:
        return sorted([file.path, file.sha256] for file in files)
    if all(file.sha256 and not _is_folder(file.path) for file in config.files):
        return sorted([file.path, file.sha256] for file in config.files)
    return [to_file_mapping(file) for file in list_sources(config)]


def _is_folder(path: str) -> bool:
    return not path or path.endswith("/")


def _format_size(size_bytes: int | None) -> int | str | None:
    """Return a size as a person writes it, where that is exact."""
    for unit, word in ((1024**3, "GiB"), (1000**3, "GB"), (1024**2, "MiB"), (1000**2, "MB")):
        if size_bytes and size_bytes % unit == 0:
            return f"{size_bytes // unit}{word}"
    return size_bytes


def _format_number(seconds: float | None) -> float | int | None:
    return int(seconds) if seconds is not None and seconds == int(seconds) else seconds


def _parse_backend(reader: MappingReader) -> str:
    backend = reader.read_text("backend", required=True, longest=NAME_MAX).strip()
    if not backend or not backend.isprintable():
        raise reader.make_error("backend is not the name of a backend", "`corral backends search` lists them.")
    return backend


def _parse_adapter(reader: MappingReader, files: tuple[ModelFile, ...]) -> tuple[str, str, tuple[ModelFile, ...]]:
    """Parse what an adapter is made of. `adapter` may be an address, which is then the only file."""
    base = reader.read_text("base", longest=NAME_MAX)
    adapter = reader.read_text("adapter", longest=PATH_MAX * 4).strip()
    if not base and not adapter:
        return "", "", files
    if not base:
        raise reader.make_error("adapter is given without base", "base is the name of the model that it changes.")
    given = sorted(_OF_BASE & {key for key, value in reader.value.items() if value})
    if given:
        raise reader.make_error(
            f"an adapter has no {given[0]} of its own", f"It runs in the engines of {base[:80]}: set it there."
        )
    if _is_address(adapter) and not files:
        path = parse_file_name(adapter) or ADAPTER_NAME
        files = (ModelFile(path=path, parts=(_parse_part(reader.where, adapter),)),)
        adapter = path
    if not files:
        raise reader.make_error("an adapter needs a file", "adapter: upload:sha256 or an address, or files.")
    if not adapter:
        adapter = files[0].path if len(files) == 1 else ""
    elif adapter not in {file.path for file in files} and not all(_is_folder(file.path) for file in files):
        raise reader.make_error(f"adapter {adapter[:100]!r} is not one of its files")
    return check_name(base), adapter, files


def _is_address(text: str) -> bool:
    return text.startswith("/") or text.partition(":")[0].lower() in SCHEMES


def _parse_options(reader: MappingReader) -> dict[str, str]:
    inner = reader.read_inner("options")
    if ADAPTERS_OPTION in inner.value:
        raise inner.make_error("adapters are models of their own", "Create a model with base and adapter instead.")
    options: dict[str, str] = {}
    for key, value in inner.value.items():
        text = as_text(value)
        if text is None or not key.strip() or len(text) > PATH_MAX * 4 or "\x00" in text:
            raise inner.make_error(f"{key[:60]} is not one plain value")
        options[key] = text
    return options


def _parse_aliases(reader: MappingReader, name: str) -> tuple[str, ...]:
    return tuple(check_name(alias) for alias in reader.read_texts("aliases", most=ALIASES_MAX) if alias != name)


def _parse_defaults(reader: MappingReader) -> dict[str, Any]:
    defaults = dict(reader.read_inner("defaults").value)
    try:
        size = len(json.dumps(defaults, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise reader.make_error("defaults has a value that JSON does not know") from error
    if size > DEFAULTS_MAX_CHARACTERS:
        raise reader.make_error(f"defaults is longer than {DEFAULTS_MAX_CHARACTERS} characters")
    # Through JSON and back, so that the stored value is the compared one.
    return json.loads(json.dumps(defaults))  # type: ignore[no-any-return]


def _parse_files(reader: MappingReader) -> tuple[ModelFile, ...]:
    items = reader.read_items("files")
    if len(items) > FILES_MAX:
        raise reader.make_error(f"files has more than {FILES_MAX} items")
    files = tuple(_parse_file(reader, item, number) for number, item in enumerate(items, start=1))
    paths = [file.path for file in files]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise reader.make_error(f"files has {twice or 'the whole folder'!r} twice")
    return files


def parse_files(items: object, where: str) -> tuple[ModelFile, ...]:
    """Parse files as `to_file_mapping` writes them."""
    return _parse_files(MappingReader({"files": items}, where, CODE))


def _parse_file(reader: MappingReader, item: object, number: int) -> ModelFile:
    """Parse a file: a mapping, or an address alone, whose last part is the file's name."""
    location = f"{reader.where}: file {number}"
    inner = MappingReader({"uri": item} if isinstance(item, str) else item, location, CODE)
    inner.check_keys(("path", "filename", "uri", "parts", "sha256"))
    uri, parts = inner.read_text("uri").strip(), inner.read_items("parts")
    if bool(uri) == bool(parts):
        raise inner.make_error("it needs a uri, or parts, and not both")
    read = tuple(_parse_part(location, part) for part in (parts or ({"uri": uri},)))
    given_path = inner.value.get("path", inner.value.get("filename"))
    path = parse_file_name(read[0].uri) if given_path is None else given_path
    if not isinstance(path, str):
        raise inner.make_error("path is not a text; put it in quotes")
    sha256 = inner.read_text("sha256").strip().lower()
    if sha256 and not _SHA256.fullmatch(sha256):
        raise inner.make_error("sha256 is not 64 hexadecimal digits")
    if sha256 and _is_folder(path):
        raise inner.make_error("a folder has no sha256; give its files one by one")
    return ModelFile(path=_parse_path(inner, path, "path"), parts=read, sha256=sha256)


def _parse_part(path: str, item: object) -> FilePart:
    inner = MappingReader({"uri": item} if isinstance(item, str) else item, path, CODE)
    inner.check_keys(("uri", "sha256"))
    uri = inner.read_text("uri", required=True).strip()
    scheme = uri.partition(":")[0].lower()
    if not uri.isprintable() or not (uri.startswith("/") or scheme in SCHEMES):
        known = ", ".join(f"{one}:" for one in SCHEMES)
        raise inner.make_error(f"{uri[:100]!r} is not an address of a file", f"It begins with / or one of {known}")
    sha256 = inner.read_text("sha256").strip().lower()
    if sha256 and not _SHA256.fullmatch(sha256):
        raise inner.make_error("sha256 is not 64 hexadecimal digits")
    return FilePart(uri=uri, sha256=sha256)


def parse_file_name(uri: str) -> str:
    """Return the file's name in an address; empty where the address stands for several files."""
    if uri.startswith(("oci://", "ollama://", "upload:")):
        return ""
    if uri.startswith("hf://"):
        match = _HUB.fullmatch(uri)
        return PurePosixPath(match["path"]).name if match and match["path"] else ""
    address = uri.partition("?")[0].partition("#")[0]
    if address.endswith("/"):
        return ""
    name = PurePosixPath(address.partition("://")[2] or address).name
    # A path without an extension is a folder more often than a file.
    return name if "." in name else ""


def _parse_path(reader: MappingReader, path: str, key: str) -> str:
    """Return the path inside the model's folder, in one spelling."""
    parts = path.removesuffix("/").split("/") if path else []
    is_good = len(path) <= PATH_MAX and path.isprintable() and "\\" not in path and "\x00" not in path
    if not is_good or any(part in ("", ".", "..") for part in parts):
        raise reader.make_error(f"{key} {path[:100]!r} does not stay inside the model's folder")
    return path


def to_file_mapping(file: ModelFile) -> dict[str, Any]:
    written: dict[str, Any] = {"path": file.path}
    if len(file.parts) == 1 and not file.parts[0].sha256:
        written["uri"] = file.parts[0].uri
    else:
        written["parts"] = [{"uri": part.uri} | ({"sha256": part.sha256} if part.sha256 else {}) for part in file.parts]
    return written | ({"sha256": file.sha256} if file.sha256 else {})
