"""Contents and folders of models on the disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from corral.bus.messages import ModelFileItem
from corral.domain.errors import CorralError, InvalidRequest, NotAllowed, NotFound
from corral.transfer.inbox import InboxUpload
from corral.worker.files import blob_store as store_module
from corral.worker.files import model_folders as folder_module
from corral.worker.files import node_files as node_module
from corral.worker.files.model_folders import make_safe_name
from tests.support.polling import eventually
from tests.worker.files.scene import Node, Scene, item, some_bytes

ONE, TWO, THREE = (some_bytes(5000, seed=number) for number in (1, 2, 3))


@pytest.fixture
async def node(scene: Scene) -> Node:
    scene.library.put(ONE, TWO, THREE)
    return await scene.node()


def contents(node: Node) -> set[str]:
    return {path.name for path in node.store.get_path("x").parent.iterdir()}


@pytest.mark.behaviour("OPS-102")
async def test_deleting_a_model_keeps_contents_that_another_one_uses(node: Node) -> None:
    await node.have(item(ONE, "a"), item(TWO, "deep/b"), model="org/first")
    second = await node.have(item(TWO, "b"), item(THREE, "c"), model="second")
    deleted = await node.files.delete("org/first")
    assert (deleted.model, deleted.files, deleted.freed_bytes) == ("org/first", 2, len(ONE))
    assert (second / "b").read_bytes() == TWO
    held = await node.files.list_holdings()
    assert [model.name for model in held.models] == ["second"]
    assert {blob.sha256 for blob in held.blobs} == {item(TWO).sha256, item(THREE).sha256}
    # The second call finds nothing to do.
    assert (await node.files.delete("org/first")).files == 0
    assert (await node.files.delete("second")).freed_bytes == len(TWO) + len(THREE)
    assert contents(node) == set()


@pytest.mark.behaviour("OPS-102")
async def test_contents_that_a_job_holds_stay(node: Node) -> None:
    await node.have(item(ONE))
    with node.store.hold([item(ONE).sha256]):
        await node.files.delete("m")
        assert item(ONE).sha256 in contents(node)
    assert (await node.files.ensure_files("other", "r1", (item(ONE, "x"),), (), _NullReport())).is_dir()


@pytest.mark.behaviour("OPS-102")
@pytest.mark.parametrize("name", ["../outside", "/etc", "a/../../outside", ".."])
async def test_name_that_leads_out_deletes_nothing(node: Node, scene: Scene, name: str) -> None:
    outside = scene.root / "outside"
    outside.write_text("stays")
    with pytest.raises(CorralError):
        await node.files.delete(name)
    assert outside.read_text() == "stays"


async def test_folders_of_the_store_are_no_models(node: Node) -> None:
    folder = await node.have(item(ONE))
    for name in ("blobs", "models", "blobs/" + item(ONE).sha256, "models/m"):
        assert (await node.files.delete(name)).files == 0
    assert (folder / "model.gguf").read_bytes() == ONE


async def test_files_from_before_contents_are_deleted_too(node: Node, scene: Scene) -> None:
    old = scene.root / "node-1" / "old.gguf"
    old.write_bytes(ONE)
    assert (await node.files.delete("old.gguf")).freed_bytes == len(ONE)
    assert not old.exists()


async def test_damaged_file_is_noticed_and_fetched_again(node: Node, scene: Scene) -> None:
    folder = await node.have(item(ONE))
    path = folder / "model.gguf"
    path.chmod(0o600)
    # Same size, through the model's own link.
    path.write_bytes(ONE[:-1] + b"?")
    os.utime(path, ns=(1, 1))
    sent = scene.library.sent
    folder = await node.have(item(ONE))
    assert (folder / "model.gguf").read_bytes() == ONE
    assert scene.library.sent == sent + len(ONE)


@pytest.mark.parametrize("harm", ["shorter", "gone"])
async def test_file_that_is_shorter_or_gone_is_fetched_again_also_after_a_restart(
    node: Node, scene: Scene, harm: str
) -> None:
    await node.have(item(ONE))
    path = node.store.get_path(item(ONE).sha256)
    path.unlink()
    if harm == "shorter":
        path.write_bytes(ONE[:100])
    await node.store.tidy()
    folder = await node.have(item(ONE))
    assert (folder / "model.gguf").read_bytes() == ONE


async def test_file_whose_time_has_changed_is_hashed_and_kept_if_it_is_right(node: Node, scene: Scene) -> None:
    await node.have(item(ONE))
    sent, sha256 = scene.library.sent, item(ONE).sha256
    os.utime(node.store.get_path(sha256), ns=(5, 5))
    await node.have(item(ONE))
    assert scene.library.sent == sent


async def test_content_not_synced_before_a_power_cut_is_hashed_again(
    node: Node, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.have(item(ONE))
    path = node.store.get_path(item(ONE).sha256)

    async def is_settled() -> bool:
        return len(node.puller._tasks) == 0

    await eventually(is_settled)
    time = path.stat()
    path.chmod(0o600)
    path.write_bytes(bytes(len(ONE)))
    os.utime(path, ns=(time.st_mtime_ns, time.st_mtime_ns))
    # Size and time are as noted, and the note says that the bytes were on the disk: that is the limit.
    assert await node.store.verify(item(ONE).sha256)
    node.store._blobs._write_note(item(ONE).sha256, boot="the life before")
    sent = scene.library.sent
    folder = await node.have(item(ONE))
    assert (folder / "model.gguf").read_bytes() == ONE
    assert scene.library.sent == sent + len(ONE)


async def test_folder_is_replaced_as_a_whole(node: Node) -> None:
    await node.have(item(ONE, "a"), item(TWO, "b"))
    folder = await node.files.ensure_files("m", "r2", (item(THREE, "a"), item(ONE, "deep/c")), (), _NullReport())
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == [
        "a",
        "deep/c",
    ]
    assert (folder / "a").read_bytes() == THREE
    held = node.store.find_manifest("m")
    assert held is not None
    assert (held.revision, len(held.files)) == ("r2", 2)


@pytest.mark.parametrize("moment", ["filled", "old away", "new there"])
async def test_kill_while_a_folder_is_replaced_leaves_the_old_or_the_new(node: Node, scene: Scene, moment: str) -> None:
    await node.have(item(ONE, "a"))
    await node.have(item(TWO, "x"), model="holds the content")
    program = _REPLACES.format(root=str(scene.root / "node-1"), sha=item(TWO).sha256, moment=moment)
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    await node.store.tidy()
    held = node.store.find_manifest("m")
    assert held is not None
    path = node.store.find_path("m", "a")
    assert path.read_bytes() == (TWO if moment == "new there" else ONE)
    assert held.revision == ("r2" if moment == "new there" else "r1")
    root = scene.root / "node-1" / "models"
    assert list((root / ".new").iterdir()) == list((root / ".old").iterdir()) == []


_REPLACES = """
import os, pathlib, signal
from corral.bus.messages import ModelFileItem
from corral.worker.files import model_folders
from corral.worker.job_ports import HeldModel
root = pathlib.Path({root!r})
count = 0
rename = pathlib.Path.rename
def dying(self, target):
    global count
    if {moment!r} == "filled":
        os.kill(os.getpid(), signal.SIGKILL)
    rename(self, target)
    count += 1
    if ({moment!r}, count) in (("old away", 1), ("new there", 2)):
        os.kill(os.getpid(), signal.SIGKILL)
made = model_folders.ModelFolders(root / "models", lambda sha: root / "blobs" / sha)
made.tidy()
pathlib.Path.rename = dying
made.put(HeldModel(name="m", revision="r2", files=(ModelFileItem(path="a", sha256={sha!r}, size_bytes=5000),)))
"""


@pytest.mark.behaviour("NODE-132")
async def test_link_in_place_of_a_folder_is_not_followed(node: Node, scene: Scene) -> None:
    outside = scene.root / "outside"
    outside.mkdir()
    (scene.root / "node-1" / "models" / make_safe_name("m")).symlink_to(outside)
    with pytest.raises(NotAllowed):
        await node.have(item(ONE))
    assert list(outside.iterdir()) == []
    await node.files.delete("m")
    assert outside.is_dir()


@pytest.mark.parametrize(
    "paths", [("a", "a"), ("a", "a/b"), ("a/b/c", "a/b"), ("a", "./a")], ids=["twice", "both", "both 2", "dotted"]
)
async def test_paths_that_do_not_go_together_are_refused(node: Node, paths: tuple[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        await node.have(item(ONE, paths[0]), item(TWO, paths[1]))


async def test_names_of_models_are_kept_apart(node: Node) -> None:
    names = ["a/b", "a%2Fb", ".", "..", ".new", "x" * 300, "x" * 301, "ü", "A B"]
    for name in names:
        folder = await node.have(item(ONE), model=name)
        assert (folder / "model.gguf").read_bytes() == ONE
    assert len({make_safe_name(name) for name in names}) == len(names)
    await node.store.tidy()
    assert set(node.store.folders.models) == set(names)
    for name in ("", "a\nb", "x" * 2000):
        with pytest.raises(InvalidRequest):
            await node.have(item(ONE), model=name)


async def test_file_of_a_model_is_found_by_its_path(node: Node) -> None:
    folder = await node.have(item(ONE, "deep/a"))
    assert node.store.find_path("m", "deep/a").read_bytes() == ONE
    assert node.store.find_path("m", "") == folder
    with pytest.raises(NotFound):
        node.store.find_path("m", "b")
    for entry in ("../manifest.json", "/etc/passwd"):
        with pytest.raises(NotAllowed):
            node.store.find_path("m", entry)


async def test_symbolic_links_are_used_where_hard_links_fail(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("corral.worker.files.model_folders.os.link", refused)
    folder = await node.have(item(ONE, "deep/a"))
    assert (folder / "deep/a").is_symlink()
    assert (folder / "deep/a").read_bytes() == ONE
    assert (await node.files.delete("m")).freed_bytes == len(ONE)


async def test_unused_content_is_collected_once_it_is_old(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    await node.have(item(ONE))
    with node.store.hold([item(TWO).sha256]):
        await node.puller.pull((item(TWO),), (), _NullReport())
    lonely = item(TWO).sha256
    assert (await node.files.collect_garbage()).items == ()
    monkeypatch.setattr(store_module, "GARBAGE_AGE_S", -1.0)
    dry = await node.files.collect_garbage(dry_run=True)
    assert [each.name for each in dry.items] == [f"blobs/{lonely}"]
    assert lonely in contents(node)
    with node.store.hold([lonely]):
        assert (await node.files.collect_garbage()).items == ()
    assert [each.name for each in (await node.files.collect_garbage()).items] == [f"blobs/{lonely}"]
    assert {name[:64] for name in contents(node)} == {item(ONE).sha256}
    assert {blob.sha256 for blob in node.store.list_whole()} == {item(ONE).sha256}


async def test_abandoned_upload_is_collected(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"half"

    upload = InboxUpload(body=body(), sha256="0" * 64, content_range="bytes 0-3/8")
    assert (await node.inbox.receive("voice.wav", upload)).status == 308
    assert (await node.files.collect_garbage()).items == ()
    monkeypatch.setattr(node_module, "GARBAGE_AGE_S", -1.0)
    (dry,) = (await node.files.collect_garbage(dry_run=True)).items
    assert (dry.name.startswith("inbox/"), dry.size_bytes, dry.path.exists()) == (True, 4, True)
    assert [each.path for each in (await node.files.collect_garbage()).items] == [dry.path]
    assert not dry.path.exists()


async def test_content_that_is_removed_while_it_is_written_to_the_disk_leaves_no_note(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.have(item(ONE))
    monkeypatch.setattr(node.store._blobs, "sync", lambda _sha256: True)
    await node.files.delete("m")
    await node.store.flush_to_disk(item(ONE).sha256)
    assert contents(node) == set()


async def test_model_without_files_has_an_empty_folder(node: Node) -> None:
    folder = await node.files.ensure_files("m", "r1", (), (), _NullReport())
    assert list(folder.iterdir()) == []


async def test_blob_store_is_restored_after_a_restart(node: Node, scene: Scene) -> None:
    await node.have(item(ONE, "a"), item(TWO, "b"))
    await node.store.tidy()
    held = await node.files.list_holdings()
    assert [(model.name, model.revision) for model in held.models] == [("m", "r1")]
    assert held.models[0].files == (item(ONE, "a"), item(TWO, "b"))
    assert {blob.sha256 for blob in held.blobs} == {item(ONE).sha256, item(TWO).sha256}


async def test_contents_are_private_and_read_only(node: Node) -> None:
    await node.have(item(ONE))
    assert node.store.get_path(item(ONE).sha256).stat().st_mode & 0o777 == 0o400


async def test_blob_store_change_wakes_the_reporter(node: Node) -> None:
    woken: list[int] = []
    node.files.on_change = lambda: woken.append(1)
    await node.have(item(ONE))
    assert woken
    woken.clear()
    await node.files.delete("m")
    assert woken


def test_sizes_that_contradict_each_other_are_refused() -> None:
    files = (item(ONE, "a"), ModelFileItem(path="b", sha256=item(ONE).sha256, size_bytes=7))
    with pytest.raises(InvalidRequest):
        folder_module.check_files(files)


class _NullReport:
    def on_phase(self, phase: object) -> None: ...

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None: ...
