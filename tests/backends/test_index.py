"""Indexes of galleries: what is read, what is left out, what is refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from corral.backends.documents import DEPTH_LIMIT, TEXT_LIMIT_BYTES, VALUES_LIMIT
from corral.backends.index import parse_index, read_index
from corral.domain.backend import SourceKind
from corral.domain.errors import InvalidRequest
from tests.backends.entries import entry, parsed
from tests.backends.sites import HTML


def refusal(text: str) -> str:
    with pytest.raises(InvalidRequest) as caught:
        parse_index(text, "mine")
    assert caught.value.slug == "bad_gallery"
    assert caught.value.message.startswith("mine: ")
    return caught.value.message


def test_merge_keys_explicit_or_not_fill_in_what_an_entry_leaves_out() -> None:
    meta, cpu, metal = entry("brain"), entry("cpu-brain"), entry("metal-brain")
    assert meta.is_meta
    assert meta.capabilities["nvidia-cuda-12"] == "cuda12-brain"
    assert not cpu.is_meta
    assert (cpu.capabilities, cpu.license, cpu.tags, cpu.alias) == ({}, "MIT", ("chat", "gguf"), "brain")
    assert metal.urls == meta.urls
    assert entry("cpu-brain-development").is_development


def test_older_dialect_becomes_sources_of_the_right_kind() -> None:
    cpu, cuda, metal = (entry(name).versions[0].source for name in ("cpu-brain", "cuda12-brain", "metal-brain"))
    assert (cpu.kind, cpu.uri) == (SourceKind.OCI, "registry.example/brains:latest-cpu")
    assert cpu.mirrors == ("mirror.example/brains:latest-cpu",)
    assert (cuda.kind, cuda.uri) == (SourceKind.OCI, "registry.example/brains:latest-cuda-12")
    assert (metal.kind, metal.sha256) == (SourceKind.URL, "0" * 64)
    folder = parse_index("- {name: a, uri: /opt/a}\n- {name: b, uri: 'file:///opt/b'}", "mine").entries
    assert [one.versions[0].source.uri for one in folder] == ["/opt/a", "/opt/b"]
    assert {one.versions[0].source.kind for one in folder} == {SourceKind.DIRECTORY}


def test_versions_are_newest_first_and_take_over_the_fields_of_the_manifest_that_they_leave_out() -> None:
    ear = entry("ear")
    assert [one.version for one in ear.versions] == ["2.0.0rc1", "1.10.0", "1.9.0"]
    assert [one.manifest.serves for one in ear.versions] == [
        ("transcriptions", "speech"),
        ("transcriptions",),
        ("transcriptions",),
    ]
    assert {one.manifest.launcher for one in ear.versions} == {"ear"}
    assert {one.manifest.ready.path for one in ear.versions} == {"/up"}


def test_path_separators_in_names_are_replaced() -> None:
    index = parse_index("- {name: a/b, alias: 'c\\d', uri: /x}\n- {name: m, capabilities: {default: a/b}}", "mine")
    assert [one.name for one in index.entries] == ["a__b", "m"]
    assert index.entries[0].alias == "c__d"
    assert index.entries[1].capabilities == {"default": "a__b"}


@pytest.mark.behaviour("GAL-3")
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("{name: bad}", "neither a source nor capabilities"),
        ("{uri: /x}", "entry 2: the name is missing"),
        ("{name: ../bad, uri: /x}", "characters"),
        ("{name: bad@x, uri: /x}", "characters"),
        ("{name: bad, version: 1.10, uri: /x}", "bad: version is not a text; put it in quotes"),
        ("{name: bad, uri: ftp://x/y}", "neither an image of a registry"),
        ("{name: bad, uri: bare-word}", "neither an image of a registry"),
        ("{name: bad, uri: 'https://'}", "no host"),
        ("{name: bad, uri: /a/../../etc}", "must be absolute"),
        ("{name: bad, uri: 'https://h/x', sha256: abc}", "64 hexadecimal"),
        ("{name: bad, uri: 'https://h/x', mirrors: [/x]}", "another kind"),
        ("{name: bad, uri: 'https://h/x', mirrors: {a: b}}", "mirrors is not a list"),
        ("{name: bad, capabilities: {default: [1]}}", "is not a text"),
        ("{name: bad, capabilities: {default: a b}}", "one plain word"),
        ("{name: bad, versions: {}}", "versions is not a list"),
        ("{name: bad, versions: [x]}", "a version is not a mapping"),
        ("{name: bad, versions: [{version: '1'}]}", "bad 1: source is missing"),
        ("{name: bad, versions: [{version: '1', source: {kind: magic, uri: x}}]}", "kind 'magic'"),
        ("{name: bad, versions: [{version: '1', source: {kind: pypi}}]}", "needs requirements"),
        ("{name: bad, versions: [{version: '1', source: {kind: oci, uri: /x}}]}", "not an image"),
        (
            "{name: bad, versions: [&a {version: '1', source: {kind: url, uri: /x}}, *a]}",
            "twice",
        ),
        ("{name: bad, uri: /x, manifest: {api_key: maybe}}", "api_key 'maybe'"),
        ("{name: bad, uri: /x, manifest: {runs_on: gpu}}", "runs_on is 'gpu'"),
        (
            "{name: bad, uri: /x, manifest: {command: [run], options: {a: [--a]}}}",
            "the manifest has options, and no {options} in its command",
        ),
        ("{name: GOOD, uri: /x}", "a second entry has this name"),
        ("just a text", "entry 2: is not a mapping"),
        (f"{{name: bad, version: '{'1' * 200}', uri: /x}}", "too long"),
    ],
)
def test_wrong_entry_is_left_out_with_a_warning_that_names_it(bad: str, why: str) -> None:
    index = parse_index(f"- {{name: good, uri: /x}}\n- {bad}\n- {{name: other, uri: /y}}", "mine")
    assert [one.name for one in index.entries] == ["good", "other"]
    (warning,) = index.warnings
    assert warning.startswith("mine: ")
    assert why in warning


@pytest.mark.behaviour("GAL-3")
@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", "- 1\n- {name: x}", HTML, "Not found", "a: [", "a\x00b", "- !!int x"]
)
def test_text_without_a_good_entry_is_refused(text: str) -> None:
    refusal(text)


@pytest.mark.behaviour("GAL-3")
def test_broken_gallery_index_is_refused_with_the_line_number() -> None:
    assert "in line 3" in refusal("- name: a\n  uri: /x\n - name: b\n")


@pytest.mark.behaviour("GAL-4")
def test_text_that_grows_through_aliases_is_refused() -> None:
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert str(VALUES_LIMIT) in refusal("\n".join(lines))


@pytest.mark.behaviour("GAL-4")
def test_text_that_grows_through_merge_keys_is_refused() -> None:
    lines = ["- &a0 {a: 1, b: 2, c: 3}"]
    lines += [f"- &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    assert str(VALUES_LIMIT) in refusal("\n".join(lines))


@pytest.mark.behaviour("GAL-4")
@pytest.mark.parametrize("text", ["[" * 200_000, "- " * 5000, "{a: " * 5000, "? " * 5000])
def test_text_that_is_too_deep_is_refused(text: str) -> None:
    assert str(DEPTH_LIMIT) in refusal(text)


@pytest.mark.behaviour("GAL-4")
@pytest.mark.parametrize("text", ["- &a [*a]", "- &a {<<: *a}", "&a {b: *a}"])
def test_text_that_refers_to_itself_is_refused(text: str) -> None:
    assert "contains itself" in refusal(text)


@pytest.mark.behaviour("GAL-4")
def test_text_that_is_too_large_is_refused() -> None:
    assert "4 MiB" in refusal("# " + "x" * TEXT_LIMIT_BYTES)
    assert "more than 5000 entries" in refusal("- 1\n" * 5001)


@pytest.mark.behaviour("GAL-4")
def test_index_text_runs_no_code(tmp_path: Path) -> None:
    made = tmp_path / "made"
    for tag in ("!!python/object/apply:os.system", "!!python/object/new:os.system"):
        refusal(f"- {tag} ['touch {made}']")
    assert not made.exists()


words = st.text(st.sampled_from("abcdefgh0123456789-_."), min_size=1, max_size=12).map(lambda text: f"n{text}")
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=40).map(str.strip)
made = st.fixed_dictionaries(
    {"name": words, "uri": words.map(lambda word: f"https://files.example/{word}")},
    optional={"description": texts, "license": texts, "tags": st.lists(words, max_size=4), "version": words},
)


@given(st.lists(made, min_size=1, max_size=6, unique_by=lambda one: str(one["name"]).lower()))
def test_yaml_of_an_index_is_parsed_to_the_same_entries(listed: list[dict[str, object]]) -> None:
    index = parse_index(yaml.safe_dump(listed, allow_unicode=True), "mine")
    assert index.warnings == ()
    read = [
        (one.name, one.versions[0].source.uri, one.description, one.license, list(one.tags), one.versions[0].version)
        for one in index.entries
    ]
    assert read == [
        (
            one["name"],
            one["uri"],
            one.get("description", ""),
            one.get("license", ""),
            one.get("tags", []),
            one.get("version", ""),
        )
        for one in listed
    ]


@pytest.mark.behaviour("GAL-4")
@given(st.text(max_size=200))
def test_index_parser_reads_or_refuses_any_text(text: str) -> None:
    with suppress(InvalidRequest):
        assert parse_index(text, "mine").entries


async def test_large_index_is_read_as_well_beside_the_event_loop() -> None:
    text = "".join(f"- {{name: n{n}, uri: /opt/n{n}, description: {'x' * 40}}}\n" for n in range(2000))
    assert len((await read_index(text, "mine")).entries) == 2000
    assert (await read_index("- {name: a, uri: /x}", "mine")).entries == parsed("- {name: a, uri: /x}", "mine").entries
