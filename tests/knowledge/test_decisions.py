"""Which documents are read, what is remembered of a turn, and how an answer names its sources."""

from __future__ import annotations

from typing import Any

import pytest

from corral.domain.errors import InvalidRequest
from corral.policy import documents as policy
from corral.policy.documents import DocumentKind, MemoryMode

SOURCES = policy.render_sources(policy.list_cited("my manuals", ["a b.pdf", "c/d.md", "a b.pdf"]))
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": f"Hi.{SOURCES}"},
    {"role": "tool", "content": "42"},
    {"role": "user", "content": "When does it start?"},
]


@pytest.mark.behaviour("KNOW-16")
def test_sources_are_named_once_for_each_file_and_numbered_with_links_to_the_raw_file() -> None:
    assert SOURCES == (
        "\n\nSources:\n"
        "1. [a b.pdf](/api/agents/collections/my%20manuals/entries-raw/a%20b.pdf)\n"
        "2. [c/d.md](/api/agents/collections/my%20manuals/entries-raw/c/d.md)"
    )
    assert policy.render_sources([]) == ""


@pytest.mark.behaviour("KNOW-17")
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("user_only", [("user", "When does it start?")]),
        ("user_and_assistant", [("user", "When does it start?"), ("assistant", "At noon.")]),
        (
            "whole_conversation",
            [("conversation", "User: Hello.\n\nAssistant: Hi.\n\nUser: When does it start?\n\nAssistant: At noon.")],
        ),
        ("summary", [("summary", "It starts at noon.")]),
    ],
)
def test_memory_keeps_exactly_what_its_mode_says_and_never_the_sources(
    mode: MemoryMode, expected: list[tuple[str, str]]
) -> None:
    found = policy.make_memories(mode, TALK, f"At noon.{SOURCES}", f"It starts at noon.{SOURCES}")
    assert found == expected


def test_memory_of_nothing_is_nothing_and_a_long_one_is_cut_at_its_beginning() -> None:
    assert policy.make_memories("summary", TALK, "x", " ") == []
    [(_, text)] = policy.make_memories("user_only", [{"role": "user", "content": "a" * 10**6 + "end"}], "", "")
    assert (len(text), text[-3:]) == (policy.MEMORY_CHARS_MAX, "end")


@pytest.mark.parametrize("text", ["An answer.", "Sources:\nnone", "x\n\nSources:\n1. mine", "x\n\nSources:\n\nmore"])
def test_text_that_only_looks_like_sources_stays(text: str) -> None:
    assert policy.strip_sources(text) == text


@pytest.mark.parametrize(
    ("name", "media_type", "kind"),
    [
        ("a.PDF", "", DocumentKind.PDF),
        ("a.md", "application/pdf", DocumentKind.MARKDOWN),
        ("a", "text/html; charset=utf-8", DocumentKind.HTML),
        ("a", "text/x-python", DocumentKind.TEXT),
        ("a.docx", "", DocumentKind.DOCX),
        ("a.exe", "application/octet-stream", None),
        ("a", "", None),
    ],
)
def test_kind_of_a_document_is_that_of_its_name_else_of_its_type(
    name: str, media_type: str, kind: DocumentKind | None
) -> None:
    assert policy.find_document_kind(name, media_type) is kind


@pytest.mark.parametrize("name", ["", " a", "/etc/passwd", "../a.md", "a/../../b", "a\\b", "a\x00", "x" * 256])
def test_entry_with_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        policy.check_entry_name(name)


@pytest.mark.parametrize(
    ("url", "media_type", "name"),
    [
        ("https://example.com/guide", "text/html", "example.com/guide"),
        ("https://example.com/guide.pdf?x=1", "application/pdf", "example.com/guide.pdf"),
        ("https://user@example.com/", "application/octet-stream", "example.com.html"),
        ("https://example.com/a/../b.md", "text/plain", "example.com/a/./b.md"),
    ],
)
def test_entry_of_a_source_has_the_name_of_its_address(url: str, media_type: str, name: str) -> None:
    assert policy.make_entry_name(url, media_type) == name
    policy.check_entry_name(name)
