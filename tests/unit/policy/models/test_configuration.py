"""A model's configuration: what is read, what is refused and how, what an engine notices."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from corral.domain.errors import InvalidRequest
from corral.domain.model import FilePart, ModelConfig, ModelFile, StoredFile
from corral.policy.models.configuration import (
    apply_patch,
    compute_run_hash,
    diff,
    from_mapping,
    from_stored,
    to_mapping,
)

SHA = "ab" * 32
FULL: dict[str, Any] = {
    "name": "team/chat:1#x",
    "description": "For the team.",
    "backend": "llama-cpp",
    "files": [
        {"path": "model.gguf", "parts": [{"uri": "https://a.example/1", "sha256": SHA}, "wheel://p==1/x"]},
        {"path": "extra/projector.gguf", "uri": "hf://owner/repository/projector.gguf", "sha256": SHA.upper()},
        {"path": "", "uri": "oci://host.example/x:1"},
    ],
    "entry": "model.gguf",
    "options": {"context_size": 8192, "flash": True, "rope": 0.5, "text": "1.10"},
    "threads": 4,
    "vram": "12GB",
    "ram": 1024,
    "load_timeout": "5m",
    "groups": ["large"],
    "aliases": ["chat", "gpt"],
    "defaults": {"temperature": 0.2, "system": "Be brief.", "stop": ["x"]},
    "serves": ["chat"],
    "enabled": False,
    "pinned": True,
    "idle": 0,
    "gallery": "corral@chat",
    "variant": "chat-q4",
    "variant_pinned": True,
}


def test_written_configuration_parses_to_the_same():
    config = from_mapping(FULL)
    assert from_mapping(to_mapping(config)) == config
    assert from_mapping(json.loads(json.dumps(to_mapping(config)))) == config
    assert (config.vram_bytes, config.ram_bytes, config.load_timeout_s) == (12_000_000_000, 1024, 300.0)
    assert config.options == {"context_size": "8192", "flash": "true", "rope": "0.5", "text": "1.10"}
    assert config.files[1].sha256 == SHA
    assert config.idle_s == 0
    assert from_stored(to_mapping(config) | {"of_a_later_version": 1}) == config


@pytest.mark.parametrize("size", ["12GB", "320MiB", "80GiB", "5MB", 12_345_678, 0])
def test_size_is_written_as_a_person_would(size: int | str):
    assert to_mapping(from_mapping({"name": "a", "backend": "b", "ram": size}))["ram"] == size


def test_configuration_writes_only_values_that_differ_from_defaults():
    assert to_mapping(from_mapping({"name": "a", "backend": "b"})) == {"name": "a", "backend": "b"}


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("https://host.example/x/model.gguf?token=1", "model.gguf"),
        ("hf://owner/repository@main/a/b.gguf", "b.gguf"),
        ("hf://owner/repository", ""),
        ("ollama://llama:8b", ""),
        ("/data/models/chat.gguf", "chat.gguf"),
        ("/data/models/chat", ""),
        ("wheel://project==1.0/pack/age/model.gguf", "model.gguf"),
    ],
)
def test_address_alone_names_its_file(uri: str, path: str):
    config = from_mapping({"name": "a", "backend": "b", "files": [uri]})
    assert config.files == (ModelFile(path=path, parts=(FilePart(uri=uri),)),)


@pytest.mark.behaviour("MOD-2")
@pytest.mark.parametrize(
    ("change", "sentence", "hint"),
    [
        ({"bakend": "x"}, "'bakend' is not a setting", "Did you mean backend?"),
        ({"zzz": 1}, "'zzz' is not a setting", "There are: adapter, agent"),
        ({"backend": None}, "backend is missing", None),
        ({"backend": 1.1}, "backend is not a text", None),
        ({"vram": "12 parsec"}, "vram is not a size", "12GB"),
        ({"vram": -1}, "vram is not a size", "12GB"),
        ({"threads": 0}, "threads is not a whole number", None),
        ({"load_timeout": 0}, "load_timeout is not a duration", "90s"),
        ({"serves": ["chatt"]}, "serves has 'chatt'", "Did you mean chat?"),
        ({"enabled": "yes"}, "enabled is neither true nor false", None),
        ({"options": {"a": [1]}}, "a is not one plain value", None),
        ({"options": ["a"]}, "options: is not a mapping", None),
        ({"defaults": {"a": float("nan")}}, "JSON", None),
        ({"files": "x"}, "files is not a list", None),
        ({"files": [{"path": "a"}]}, "it needs a uri, or parts", None),
        ({"files": [{"path": "../a", "uri": "/a"}]}, "does not stay inside", None),
        ({"files": [{"path": "/a", "uri": "/a"}]}, "does not stay inside", None),
        ({"files": [{"path": "a//b", "uri": "/a"}]}, "does not stay inside", None),
        ({"files": [{"path": "a", "uri": "ftp://a/b"}]}, "is not an address of a file", "hf:"),
        ({"files": [{"path": "a", "uri": "/a", "sha256": "12"}]}, "sha256", None),
        ({"files": [{"path": "a/", "uri": "/a", "sha256": SHA}]}, "a folder has no sha256", None),
        ({"files": [{"path": "a", "uri": "/a"}, {"path": "a", "uri": "/b"}]}, "'a' twice", None),
        ({"files": [{"path": "a", "url": "/a"}]}, "'url' is not a setting", "Did you mean uri?"),
        ({"entry": "a/../b"}, "does not stay inside", None),
        ({3: 4}, "put it in quotes", None),
    ],
)
def test_unknown_key_is_refused_with_a_suggestion(change: dict[Any, Any], sentence: str, hint: str | None):
    with pytest.raises(InvalidRequest) as caught:
        from_mapping({"name": "a", "backend": "b"} | change)
    assert sentence in caught.value.message
    assert hint is None or hint in str(caught.value.hint)


@pytest.mark.behaviour("MOD-2")
@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "x" * 256, "..", "\x00"])
def test_unprintable_model_name_is_refused(name: str):
    with pytest.raises(InvalidRequest):
        from_mapping({"name": name, "backend": "b"})


@pytest.mark.parametrize("name", ["a", "#", "a#b#1", "meta/llama:8b", "é", "x" * 255])
def test_name_may_hold_what_models_are_called(name: str):
    assert from_mapping({"name": name, "backend": "b"}).name == name


@pytest.mark.behaviour("MOD-3")
def test_run_hash_changes_only_with_what_an_engine_notices():
    config = from_mapping(FULL)
    word = compute_run_hash(config)
    unnoticed: dict[str, Any] = {
        "description": "x", "aliases": (), "defaults": {}, "serves": (), "is_enabled": True, "is_pinned": False,
        "idle_s": 5.0, "gallery": "", "variant": "", "name": "other",
    }  # fmt: skip
    for key, value in unnoticed.items():
        assert compute_run_hash(replace(config, **{key: value})) == word, key
    noticed: dict[str, Any] = {
        "backend": "x", "entry": "", "options": {"context_size": "1"}, "threads": 5, "files": config.files[:1],
    }  # fmt: skip
    for key, value in noticed.items():
        assert compute_run_hash(replace(config, **{key: value})) != word, key


@pytest.mark.behaviour("MOD-3")
def test_fetching_a_file_whose_content_was_promised_changes_nothing_and_another_content_does():
    promised = from_mapping({"name": "a", "backend": "b", "files": [{"path": "m", "uri": "/m", "sha256": SHA}]})
    fetched = (StoredFile(path="m", sha256=SHA, size_bytes=1),)
    assert compute_run_hash(promised, fetched) == compute_run_hash(promised)
    assert compute_run_hash(promised, (replace(fetched[0], sha256="cd" * 32),)) != compute_run_hash(promised)
    open_ended = from_mapping({"name": "a", "backend": "b", "files": [{"path": "m", "uri": "/m"}]})
    assert compute_run_hash(open_ended, fetched) == compute_run_hash(promised)


def test_change_is_laid_over_what_is_there_and_null_takes_away():
    config = from_mapping(FULL)
    changed = apply_patch(config, {"options": {"context_size": 1, "flash": None}, "vram": None, "pinned": False})
    assert changed.options == {"context_size": "1", "rope": "0.5", "text": "1.10"}
    assert changed.vram_bytes is None
    assert not changed.is_pinned
    assert changed.files == config.files
    with pytest.raises(InvalidRequest, match="cannot rename"):
        apply_patch(config, {"name": "other"})
    with pytest.raises(InvalidRequest):
        apply_patch(config, ["x"])


def test_difference_is_one_line_for_each_setting():
    old = from_mapping(FULL)
    new = apply_patch(old, {"options": {"context_size": 1}, "threads": None, "variant": "chat-q8", "entry": None})
    assert diff(old, new) == [
        "- entry: model.gguf",
        "~ options.context_size: 8192 -> 1",
        "- threads: 4",
        "~ variant: chat-q4 -> chat-q8",
    ]
    assert diff(old, old) == []
    assert "+ backend: b" in diff(None, ModelConfig(name="a", backend="b"))
    assert any("files[model.gguf]" in line for line in diff(old, apply_patch(old, {"files": []})))
