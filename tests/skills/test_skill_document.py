"""`SKILL.md`: what is written is read again, and what is wrong is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.errors import InvalidRequest
from corral.skills.skill_document import make_content, parse_document, read_body

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=200)


@pytest.mark.behaviour("SKILL-3")
@pytest.mark.parametrize(
    "description",
    [
        "colon: \"double\" 'single'\nsecond line\n---\n# no comment",
        "--- begins with a fence",
        "- no list",
        "{no: mapping}",
        "yes",
        "1.0",
        "é — “quoted”",
        "a line break of another kind\x85and one more\u2028here",
    ],
)
def test_description_is_read_as_it_was_written(description: str) -> None:
    made = make_content({"name": "pdf", "description": description}, "# Title\n\n---\n\nbody")
    assert (made.description, made.body) == (description, "# Title\n\n---\n\nbody")
    assert parse_document(made.document) == made
    assert read_body(made.document) == made.body


@pytest.mark.behaviour("SKILL-3")
@given(TEXTS, TEXTS, TEXTS)
def test_any_text_in_any_field_is_read_as_it_was_written(description: str, key: str, value: str) -> None:
    if not description.strip():
        return
    made = make_content({"name": "pdf", "description": description, "metadata": {key: value}}, "body")
    assert made.description == description.strip()
    assert made.front_matter["metadata"] == {key: value}


def test_document_is_kept_as_its_author_wrote_it() -> None:
    text = (
        "---\r\nname: pdf # a comment\r\ndescription: >\r\n  folded\r\n  text\r\nversion: 1.10\r\n---\r\n\r\nDo it.\r\n"
    )
    parsed = parse_document(text)
    assert (parsed.name, parsed.description, parsed.body) == ("pdf", "folded text", "Do it.\r\n")
    assert parsed.document == text


def test_values_of_yaml_that_are_no_texts_become_texts() -> None:
    text = (
        "---\nname: pdf\ndescription: d\nallowed-tools: [Read, Bash]\nmetadata:\n  version: 1.5\n  beta: true\n"
        "made: 2026-01-31\n---\n"
    )
    front = parse_document(text).front_matter
    assert (front["allowed-tools"], front["metadata"]) == ("Read Bash", {"version": "1.5", "beta": "true"})
    assert front["made"] == "2026-01-31"


@pytest.mark.behaviour("SKILL-4")
@pytest.mark.parametrize("name", ["", "Pdf", "-pdf", "pdf-", "p--df", "a b", "a/b", "..", "a_b", "x" * 65, "import"])
def test_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        make_content({"name": name, "description": "d"}, "")
    assert refused.value.slug == "bad_skill_name"
    assert refused.value.hint


@pytest.mark.behaviour("SKILL-4")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no front matter", "no front matter"),
        ("---\nname: pdf\ndescription: d\n", "no front matter"),
        ("---\nname: pdf\n---\n", "description"),
        ("---\nname: pdf\ndescription: ''\n---\n", "description"),
        ("---\nname: pdf\ndescription: [a]\n---\n", "not a text"),
        ("---\n- name\n---\n", "not a mapping"),
        ("---\nname: [\n---\n", "cannot be read"),
        ("---\nname: pdf\ndescription: d\nmetadata: x\n---\n", "metadata"),
        (f"---\nname: pdf\ndescription: {'d' * 1025}\n---\n", "longer than 1024"),
        (f"---\nname: pdf\ndescription: d\nx: {'y' * 17000}\n---\n", "larger than 16 KiB"),
        (f"---\nname: pdf\ndescription: d\n---\n{'y' * 262144}", "larger than 256 KiB"),
    ],
)
def test_damaged_document_is_refused_with_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_document(text)
    assert words in refused.value.message


@pytest.mark.behaviour("SKILL-4")
def test_aliases_that_would_be_large_when_written_out_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 8)]
    with pytest.raises(InvalidRequest):
        parse_document("---\nname: pdf\ndescription: d\n" + "\n".join(lines) + "\n---\n")
