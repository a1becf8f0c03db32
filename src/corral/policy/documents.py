"""Decides which documents are read, what entries and collections may be called, and how answers cite them."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from corral.domain.errors import InvalidRequest

NAME_MAX = 100
ENTRY_NAME_MAX = 255
# A scanned book; a larger file is an archive.
ENTRY_BYTES_MAX = 64 * 1024**2
# Eight million characters of text: forty novels.
CHUNKS_MAX = 20_000
# A chunk is embedded as a whole, and models read some thousand tokens.
CHUNK_SIZE_MIN, CHUNK_SIZE_MAX = 50, 8000
RESULTS_MAX = 50
QUERY_CHARS_MAX = 8000
SOURCE_INTERVAL_MIN_S, SOURCE_INTERVAL_MAX_S = 60.0, 31 * 86400.0
# Of what an agent remembers of one turn.
MEMORY_CHARS_MAX = 32 * 1024
# Of which the language of a document is found: a title alone, or a table of contents, says little.
SAMPLED_CHUNKS = 8
_LANGUAGE = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)
_FORBIDDEN = (":", "/", "\\", "..")
_RAW_ROUTE = "/api/agents/collections/{collection}/entries-raw/{entry}"
_SOURCES = re.compile(r"\n\nSources:\n(?:\d+\. \[[^\n]*\]\(/api/agents/collections/[^\n]*\)(?:\n|\Z))+\Z", re.MULTILINE)

MemoryMode = Literal["user_only", "user_and_assistant", "whole_conversation", "summary"]


class DocumentKind(StrEnum):
    """Names the formats of documents whose text a worker can read."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"
    PPTX = "pptx"
    XLSX = "xlsx"


_BY_ENDING = {
    **dict.fromkeys(("txt", "text", "log", "csv", "tsv", "json", "yaml", "yml", "xml", "rst"), DocumentKind.TEXT),
    **dict.fromkeys(("md", "markdown"), DocumentKind.MARKDOWN),
    **dict.fromkeys(("html", "htm", "xhtml"), DocumentKind.HTML),
    "pdf": DocumentKind.PDF,
    "docx": DocumentKind.DOCX,
    "pptx": DocumentKind.PPTX,
    "xlsx": DocumentKind.XLSX,
}
_OFFICE = "application/vnd.openxmlformats-officedocument."
_BY_TYPE = {
    "text/markdown": DocumentKind.MARKDOWN,
    "text/html": DocumentKind.HTML,
    "application/xhtml+xml": DocumentKind.HTML,
    "application/pdf": DocumentKind.PDF,
    "application/json": DocumentKind.TEXT,
    f"{_OFFICE}wordprocessingml.document": DocumentKind.DOCX,
    f"{_OFFICE}presentationml.presentation": DocumentKind.PPTX,
    f"{_OFFICE}spreadsheetml.sheet": DocumentKind.XLSX,
}


def find_document_kind(name: str, media_type: str) -> DocumentKind | None:
    """Return the format of a document by its name, else by its media type; None if its text cannot be read."""
    by_name = _BY_ENDING.get(PurePosixPath(name).suffix.lower().removeprefix("."))
    plain = media_type.partition(";")[0].strip().lower()
    by_type = _BY_TYPE.get(plain) or (DocumentKind.TEXT if plain.startswith("text/") else None)
    return by_name or by_type


def require_document_kind(name: str, media_type: str) -> DocumentKind:
    kind = find_document_kind(name, media_type)
    if kind is None:
        raise InvalidRequest(
            f"The text of {name[:100]!r} cannot be read: its format is not supported.",
            hint="Upload text, Markdown, HTML, PDF, DOCX, PPTX or XLSX, with the ending in the name.",
            code="unsupported_document",
        )
    return kind


def check_collection_name(name: str) -> None:
    """Raise `InvalidRequest` unless a collection may have this name. The rules are those of agents."""
    is_valid = bool(name) and name == name.strip() and len(name) <= NAME_MAX and name.isprintable() and name != "."
    if not is_valid or any(part in name for part in _FORBIDDEN):
        raise InvalidRequest(
            f"{name[:NAME_MAX]!r} is not a name for a collection.",
            hint=f"1 to {NAME_MAX} characters, without : / \\ and ..",
            code="bad_collection_name",
        )


def check_entry_name(name: str) -> None:
    is_valid = bool(name) and name == name.strip() and len(name) <= ENTRY_NAME_MAX and name.isprintable()
    if not is_valid or name.startswith("/") or ".." in PurePosixPath(name).parts or "\\" in name:
        raise InvalidRequest(
            f"{name[:ENTRY_NAME_MAX]!r} is not a name for an entry.",
            hint=f"1 to {ENTRY_NAME_MAX} characters, a relative path without ..",
            code="bad_entry_name",
        )


def check_chunks(size: int, overlap: int) -> None:
    if not CHUNK_SIZE_MIN <= size <= CHUNK_SIZE_MAX or not 0 <= overlap < size:
        raise InvalidRequest(
            "The chunk size or the overlap is out of range.",
            hint=f"A size of {CHUNK_SIZE_MIN} to {CHUNK_SIZE_MAX} characters, and an overlap below the size.",
            code="bad_chunk_size",
        )


def check_language_name(name: str) -> None:
    """Raise `InvalidRequest` unless this could be the name of a text search configuration of PostgreSQL."""
    if not _LANGUAGE.fullmatch(name):
        raise InvalidRequest(
            f"{name[:40]!r} is not the name of a language.",
            hint="auto, simple (whole words), or a language in English: english, german, french, …",
            code="bad_language",
        )


def make_sample(contents: Sequence[str]) -> str:
    """Return pieces of a text that stand for all of it: chunks at equal distances."""
    step = max(1, len(contents) // SAMPLED_CHUNKS)
    return "\n".join(contents[::step][:SAMPLED_CHUNKS])


def check_embedding(values: Sequence[float], limit: int) -> None:
    """Raise `InvalidRequest` unless these are numbers that can be stored as an embedding."""
    if not 0 < len(values) <= limit or not all(map(math.isfinite, values)):
        raise InvalidRequest("The embedding is empty, too long, or holds something else than finite numbers.")


def make_entry_name(url: str, media_type: str) -> str:
    """Return the name of the entry of a source: its address without the scheme, and an ending if it needs one."""
    parts = urlsplit(url)
    path = f"{parts.netloc.rpartition('@')[2]}{parts.path}".strip("/")
    name = "".join(c for c in path.replace("\\", "/").replace("..", ".") if c.isprintable())[: ENTRY_NAME_MAX - 10]
    kind = find_document_kind(name, "")
    plain = media_type.partition(";")[0].strip().lower()
    return name if kind is not None or find_document_kind("", plain) is not None else f"{name}.html"


def make_distinct_name(name: str, url: str) -> str:
    """Return the name of a source's entry with a part of the hash of its address before the ending."""
    path = PurePosixPath(name)
    digest = hashlib.sha256(url.encode()).hexdigest()[:8]
    return str(path.with_name(f"{path.stem}-{digest}{path.suffix}"))


# --- what agents say and remember ---


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedFile:
    """A file that an answer has used, with the number under which the answer names it."""

    number: int
    name: str
    address: str


def make_raw_address(collection: str, entry: str) -> str:
    """Return the path at which the owner of a collection gets the file of an entry."""
    return _RAW_ROUTE.format(collection=quote(collection, safe=""), entry=quote(entry))


def list_cited(collection: str, entry_names: Sequence[str]) -> list[CitedFile]:
    """Return the files of search results, each once, numbered in the order in which they were found."""
    return [
        CitedFile(number=number, name=name, address=make_raw_address(collection, name))
        for number, name in enumerate(dict.fromkeys(entry_names), start=1)
    ]


def render_sources(cited: Sequence[CitedFile]) -> str:
    """Return the list of sources that is put behind an answer; empty without any."""
    lines = [f"{one.number}. [{one.name}]({one.address})" for one in cited]
    return "\n".join(["\n\nSources:", *lines]) if lines else ""


def strip_sources(answer: str) -> str:
    """Return an answer without the list of sources behind it."""
    return _SOURCES.sub("", answer)


def make_memories(
    mode: MemoryMode, messages: Sequence[Mapping[str, Any]], answer: str, summary: str
) -> list[tuple[str, str]]:
    """Return what is remembered of a turn, as pairs of a part of a name and a text. `messages` are the conversation
    with the message that was answered last, as roles and texts. Lists of sources are never remembered."""
    spoken = [
        (str(message.get("role", "")), strip_sources(str(message["content"])).strip())
        for message in messages
        if message.get("role") in ("user", "assistant") and isinstance(message.get("content"), str)
    ]
    question = next((text for role, text in reversed(spoken) if role == "user"), "")
    answered = strip_sources(answer).strip()
    match mode:
        case "user_only":
            found = [("user", question)]
        case "user_and_assistant":
            found = [("user", question), ("assistant", answered)]
        case "whole_conversation":
            lines = [f"{role.capitalize()}: {text}" for role, text in [*spoken, ("assistant", answered)] if text]
            found = [("conversation", "\n\n".join(lines))]
        case "summary":
            found = [("summary", strip_sources(summary).strip())]
    # The newest part counts, where a conversation is too long.
    return [(part, text[-MEMORY_CHARS_MAX:]) for part, text in found if text]
