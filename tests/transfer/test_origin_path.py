"""Files and folders of the frontend's own machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.transfer.scene import scene_of
from tests.worker.backends.scene import sha256


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "models"
    (made / "tiny" / "shards").mkdir(parents=True)
    (made / "tiny" / "config.json").write_bytes(b"{}")
    (made / "tiny" / "shards" / "one.safetensors").write_bytes(b"weights")
    (made / "tiny" / "shards" / "one.safetensors.sha256").write_bytes(b"digest")
    (made / "tiny" / "shards" / "one.safetensors.sha256.target").write_bytes(b"digest")
    (made / "tiny" / "alone.sha256").write_bytes(b"a real file with this name")
    return made


@pytest.mark.behaviour("NODE-133")
async def test_folder_is_all_its_files_without_notes_about_their_digests(tmp_path: Path, folder: Path) -> None:
    async with scene_of(tmp_path, paths=(folder,)) as scene:
        found = await scene.resolve(str(folder / "tiny"))
        assert [(one.path, one.size_bytes) for one in found] == [
            ("alone.sha256", 26),
            ("config.json", 2),
            ("shards/one.safetensors", 7),
        ]
        path = await scene.fetch(found[2])
        assert path == folder / "tiny" / "shards" / "one.safetensors"
        await scene.origins.forget(found[2], scene.into)
        assert path.read_bytes() == b"weights"


@pytest.mark.parametrize("name", ["plain.gguf", "with space#and?.gguf"])
async def test_file_is_read_where_it_lies(tmp_path: Path, folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"weights")
    async with scene_of(tmp_path, paths=(folder,)) as scene:
        assert await scene.content(str(folder / name), sha256(b"weights")) == b"weights"
        assert await scene.content((folder / name).as_uri()) == b"weights"
        assert scene.moved[-1] == (7, 7)
        await scene.refuses(str(folder / name), "digest_mismatch", sha256(b"other"))
    assert (folder / name).exists()


async def test_empty_folder_missing_path_and_special_file_are_refused(tmp_path: Path, folder: Path) -> None:
    (folder / "empty").mkdir()
    os.mkfifo(folder / "pipe")
    async with scene_of(tmp_path, paths=(folder,)) as scene:
        await scene.refuses(str(folder / "empty"), "not_found")
        await scene.refuses(str(folder / "missing"), "not_found")
        await scene.refuses(str(folder / "pipe"), "unsupported")
        await scene.refuses(f"file://elsewhere{folder}/tiny", "invalid_request")


@pytest.mark.behaviour("ORG-6")
async def test_path_origin_reads_only_folders_of_the_settings(tmp_path: Path, folder: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_bytes(b"secret")
    async with scene_of(tmp_path, paths=(folder,)) as scene:
        there = await scene.refuses(str(outside), "not_allowed")
        absent = await scene.refuses(str(tmp_path / "absent"), "not_allowed")
        assert there.message.replace("secret", "absent") == absent.message
        await scene.refuses(f"{folder}/../secret", "not_allowed")
        await scene.refuses("/etc/hostname", "not_allowed")
    async with scene_of(tmp_path) as nothing:
        await nothing.refuses(str(folder / "tiny"), "not_allowed")


@pytest.mark.behaviour("ORG-6")
async def test_link_that_leads_out_is_refused_and_one_that_does_not_is_followed(tmp_path: Path, folder: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_bytes(b"secret")
    (folder / "linked").mkdir()
    (folder / "linked" / "model.gguf").symlink_to(folder / "tiny" / "shards" / "one.safetensors")
    async with scene_of(tmp_path, paths=(folder,)) as scene:
        assert await scene.content(str(folder / "linked")) == b"weights"
        found = await scene.one(str(folder / "linked"))
        (folder / "linked" / "model.gguf").unlink()
        (folder / "linked" / "model.gguf").symlink_to(outside)
        await scene.refuses(str(folder / "linked"), "not_allowed")
        await scene.refuses(str(folder / "linked" / "model.gguf"), "not_allowed")
        # Also when it was another link while it was looked for.
        with pytest.raises(Exception, match="not in a folder"):
            await scene.fetch(found)
        (folder / "linked" / "model.gguf").unlink()
        (folder / "linked" / "more").symlink_to(tmp_path)
        await scene.refuses(str(folder / "linked"), "not_allowed")
