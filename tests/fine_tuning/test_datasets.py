"""Datasets: what is taken, which lines of a broken one are named, and to whom they belong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from corral.domain.errors import InvalidRequest
from corral.policy.datasets import DatasetReader
from corral.runs.artifacts import ArtifactOptions
from tests.agents.hand_worker import make_key
from tests.fine_tuning.scene import DATASETS, FineTuneScene, make_rows, open_scene


@pytest.fixture
async def scene(database_url: str, tmp_path: Path) -> AsyncIterator[FineTuneScene]:
    async with open_scene(database_url, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("a.jsonl", b'{"text": "one"}\n\n{"text": "two", "more": 1}\n', 2),
        ("a.json", b'[{"text": "one"}, {"text": "two"}]', 2),
        ("a.json", b'{"data": [{"text": "one"}]}', 1),
        ("a.csv", b'text,label\n"one\nline",1\ntwo,0\n', 2),
    ],
)
@pytest.mark.behaviour("TUNE-16")
def test_dataset_of_each_form_is_read_in_any_pieces(name: str, content: bytes, rows: int) -> None:
    for size in (1, 7, len(content)):
        reader = DatasetReader(name)
        for start in range(0, len(content), size):
            reader.feed(content[start : start + size])
        facts = reader.finish()
        assert (facts.rows, "text" in facts.columns, "more" in facts.columns) == (rows, True, False)


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.jsonl", b'{"text": "one"}\nnot json\n[1]\n{"text": \n', [2, 3, 4]),
        ("a.csv", b"text,label\none,1\ntwo\n", [3]),
        ("a.csv", b"text,text\none,1\n", [1]),
        ("a.json", b'[\n{"text": 1},\nx]', [3]),
        ("a.json", b'[{"text": 1}, 5]', [2]),
    ],
)
@pytest.mark.behaviour("TUNE-16")
def test_broken_lines_of_a_dataset_are_named(name: str, content: bytes, lines: list[int]) -> None:
    reader = DatasetReader(name)
    reader.feed(content)
    with pytest.raises(InvalidRequest) as refused:
        reader.finish()
    assert refused.value.slug == "broken_dataset"
    assert [one["line"] for one in cast("list[Any]", refused.value.details["lines"])] == lines
    assert f"line {lines[0]}" in refused.value.message


@pytest.mark.behaviour("TUNE-16")
async def test_broken_dataset_is_refused_with_its_lines_and_not_stored(scene: FineTuneScene) -> None:
    status, refused = await scene.upload_dataset(b'{"prompt": "a", "completion": "b"}\n{broken\n', "bad.jsonl")
    assert (status, refused["error"]["code"]) == (400, "broken_dataset")
    assert refused["error"]["details"]["lines"][0]["line"] == 2
    status, refused = await scene.upload_dataset(b"x", "data.parquet")
    assert (status, refused["error"]["code"]) == (400, "unknown_dataset_format")
    status, refused = await scene.upload_dataset(b"", "empty.jsonl")
    assert (status, refused["error"]["code"]) == (400, "empty_dataset")
    status, listed = await scene.frontend.call("GET", DATASETS)
    assert [one["name"] for one in listed["datasets"]] == ["colors.jsonl"]
    status, files = await scene.frontend.call("GET", "/v1/files")
    assert len(files["data"]) == 1


@pytest.mark.behaviour("TUNE-17")
async def test_dataset_is_listed_for_its_owner_alone_and_deletable(scene: FineTuneScene) -> None:
    status, made = await scene.upload_dataset(make_rows(3), "mine.jsonl")
    assert (status, made["rows"], made["columns"]) == (201, 3, ["completion", "prompt"])
    other = (await make_key(scene.frontend, "bob", scope="operate"))["key"]
    assert (await scene.frontend.call("GET", DATASETS, key=other))[1]["datasets"] == []
    assert (await scene.frontend.call("DELETE", f"{DATASETS}/{made['id']}", key=other))[0] == 404
    assert (await scene.frontend.call("DELETE", f"{DATASETS}/{made['id']}"))[0] == 204
    assert (await scene.start(dataset_source=made["id"]))[0] == 404


@pytest.mark.behaviour("TUNE-17")
async def test_dataset_of_an_active_training_is_not_deleted(scene: FineTuneScene) -> None:
    _, listed = await scene.frontend.call("GET", DATASETS)
    dataset_id = listed["datasets"][0]["id"]
    job_id = await scene.take(dataset_source=dataset_id)
    status, refused = await scene.frontend.call("DELETE", f"{DATASETS}/{dataset_id}")
    assert (status, refused["error"]["code"]) == (409, "file_in_use")
    await scene.finish(job_id)
    assert (await scene.frontend.call("DELETE", f"{DATASETS}/{dataset_id}"))[0] == 204


@pytest.mark.behaviour("TUNE-17")
async def test_dataset_beyond_the_quota_of_its_owner_is_refused(database_url: str, tmp_path: Path) -> None:
    limit = ArtifactOptions(owner_bytes_max=len(make_rows()) + 100)
    async with open_scene(database_url, tmp_path, options={"artifacts": limit}) as scene:
        status, refused = await scene.upload_dataset(make_rows(), "more.jsonl")
        assert (status, refused["error"]["code"]) == (429, "file_quota_reached"), refused
