"""Archives that mean harm, and those that are merely unusual."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.transfer.files import StopFlag
from corral.worker.backends.layout import InstallFailed
from corral.worker.backends.sources.staging_source import InstallerOptions
from corral.worker.backends.sources.unpacker import ArchiveUnpacker
from tests.worker.backends.scene import files_below, link_to, tar_of, zip_of

ANY_SIZE = InstallerOptions()


def unpack(folder: Path, *archives: bytes, is_layer: bool = False, options: InstallerOptions = ANY_SIZE) -> Path:
    target = folder / "target"
    target.mkdir(exist_ok=True)
    unpacker = ArchiveUnpacker(target, options, StopFlag())
    for number, archive in enumerate(archives):
        path = folder / f"archive-{number}"
        path.write_bytes(archive)
        if is_layer:
            unpacker.unpack_tar(path, "It", is_layer=True)
        else:
            unpacker.unpack_archive(path, "It")
    unpacker.check_links()
    return target


def refused(folder: Path, *archives: bytes, options: InstallerOptions = ANY_SIZE) -> str:
    outside = folder / "outside"
    outside.write_text("untouched")
    before = files_below(folder)
    with pytest.raises(InstallFailed) as caught:
        unpack(folder, *archives, options=options)
    assert caught.value.slug == "bad_package"
    assert outside.read_text() == "untouched"
    new = files_below(folder) - before
    assert all(name.startswith(("target/", "archive-")) for name in new)
    return caught.value.message


def device(name: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    return member


HARMFUL = {
    "tar up": tar_of({"../outside": b"x"}),
    "tar down and up": tar_of({"a/../../outside": b"x"}),
    "tar absolute": tar_of({"/tmp/../outside": b"x"}),
    "zip up": zip_of({"../outside": b"x"}),
    "zip absolute": zip_of({"/outside": b"x"}),
    "link up": tar_of({}, extra=(link_to("link", "../outside"),)),
    "link absolute": tar_of({}, extra=(link_to("link", "/etc/passwd"),)),
    "second name up": tar_of({}, extra=(link_to("hard", "../outside", kind=tarfile.LNKTYPE),)),
    "second name of nothing": tar_of({}, extra=(link_to("hard", "missing", kind=tarfile.LNKTYPE),)),
    # Each link alone stays inside; together they lead out.
    "two links": tar_of({}, extra=(link_to("here", "."), link_to("up", "here/.."))),
    "two links the other way round": tar_of({}, extra=(link_to("up", "here/.."), link_to("here", "."))),
    "device": tar_of({}, extra=(device("device", tarfile.CHRTYPE),)),
    "pipe": tar_of({}, extra=(device("pipe", tarfile.FIFOTYPE),)),
}
DAMAGED = {
    "empty": b"",
    "text": b"no archive at all",
    "cut tar": tar_of({"file": b"x" * 100_000})[:-500],
    "cut zip": zip_of({"file": b"x" * 1000})[:-30],
    "garbage": b"\x1f\x8bgarbage",
    "cut xz": tar_of({"file": bytes(100_000)}, mode="w:xz")[:-100],
}


@pytest.mark.behaviour("INS-21")
@pytest.mark.parametrize("harm", sorted(HARMFUL))
def test_archive_member_outside_the_folder_is_refused(tmp_path: Path, harm: str) -> None:
    refused(tmp_path, HARMFUL[harm])


@pytest.mark.behaviour("INS-21")
def test_file_is_never_written_through_a_link_that_leads_out(tmp_path: Path) -> None:
    links = tar_of({}, extra=(link_to("a/up", "../b/.."), link_to("b", ".")))
    through = tar_of({"a/up/outside": b"changed"})
    refused(tmp_path, links, through)
    assert not (tmp_path / "outside" / "changed").exists()


@pytest.mark.behaviour("INS-21")
def test_file_replaces_a_link_and_does_not_follow_it(tmp_path: Path) -> None:
    target = unpack(tmp_path, tar_of({"real": b"old"}, extra=(link_to("name", "real"),)), tar_of({"name": b"new"}))
    assert (target / "real").read_bytes() == b"old"
    assert (target / "name").read_bytes() == b"new"
    assert not (target / "name").is_symlink()


@pytest.mark.behaviour("INS-21")
def test_size_and_number_of_files_are_bounded(tmp_path: Path) -> None:
    bomb = tar_of({"zeros": bytes(4_000_000)})
    assert len(bomb) < 40_000
    assert "too large" in refused(tmp_path, bomb, options=InstallerOptions(unpacked_bytes_max=1_000_000))
    many = tar_of({str(number): b"" for number in range(200)})
    assert "too many" in refused(tmp_path, many, options=InstallerOptions(unpacked_files_max=100))


@pytest.mark.behaviour("INS-21")
@pytest.mark.parametrize("damage", sorted(DAMAGED))
def test_damaged_archive_is_refused(tmp_path: Path, damage: str) -> None:
    refused(tmp_path, DAMAGED[damage])


@pytest.mark.behaviour("INS-21")
def test_zstd_archive_is_refused_with_a_message(tmp_path: Path) -> None:
    with pytest.raises(InstallFailed, match="zstd") as caught:
        unpack(tmp_path, b"\x28\xb5\x2f\xfd" + bytes(100))
    assert caught.value.slug == "unsupported"


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_every_kind_of_tar_is_known_by_its_content(tmp_path: Path, mode: str) -> None:
    extra = (link_to("bin/link", "../lib/file"), link_to("second", "lib/file", kind=tarfile.LNKTYPE))
    target = unpack(tmp_path, tar_of({"./lib/file": b"content", "bin/tool": b"#!"}, mode=mode, extra=extra))
    assert files_below(target) == {"lib/file", "bin/tool", "bin/link", "second"}
    assert (target / "bin/link").read_bytes() == b"content"
    assert (target / "second").samefile(target / "lib/file")


def test_modes_are_kept_without_dangerous_bits(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, mode in (("tool", 0o4777), ("data", 0o400)):
            member = tarfile.TarInfo(name)
            member.mode = mode
            archive.addfile(member)
    target = unpack(tmp_path, buffer.getvalue())
    assert stat.S_IMODE((target / "tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "data").stat().st_mode) == 0o600


@pytest.mark.behaviour("INS-21")
def test_zip_with_a_link_of_many_bytes_is_refused_before_they_are_read(tmp_path: Path) -> None:
    """The bytes of a link are its target. These would be 64 MiB, out of 64 KiB."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        link.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(link, b"a" * (64 << 20))
    tracemalloc.start()
    with pytest.raises(InstallFailed, match="is too long"):
        unpack(tmp_path, buffer.getvalue())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 16 << 20


def test_zip_keeps_modes_and_links(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        tool = zipfile.ZipInfo("bin/tool")
        tool.external_attr = (stat.S_IFREG | 0o755) << 16
        archive.writestr(tool, b"#!")
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "bin/tool")
        archive.writestr("empty/", b"")
    target = unpack(tmp_path, buffer.getvalue())
    assert (target / "bin/tool").stat().st_mode & 0o111
    assert (target / "link").readlink() == Path("bin/tool")
    assert (target / "empty").is_dir()


def test_layer_deletes_what_layers_below_brought_and_nothing_else(tmp_path: Path) -> None:
    below = tar_of({"a/one": b"1", "a/two": b"2", "b/three": b"3", "c": b"4", "d/e": b"5"})
    above = tar_of({"b/new": b"6", "a/.wh.one": b"", "b/.wh..wh..opq": b"", ".wh.c": b"", "d": b"now a file"})
    target = unpack(tmp_path, below, above, is_layer=True)
    assert files_below(target) == {"a/two", "b/new", "d"}


def test_layer_cannot_delete_outside_of_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    for name in (".wh...", "a/.wh...", ".wh../outside", ".wh."):
        try:
            unpack(tmp_path, tar_of({name: b""}), is_layer=True)
        except InstallFailed as error:
            assert error.slug == "bad_package"  # noqa: PT017 - either way is fine
    assert outside.read_text() == "untouched"


NAMES = st.lists(st.sampled_from(["a", "b", "c", "..", ".", "", ".wh.a", ".wh..wh..opq"]), min_size=1, max_size=4).map(
    "/".join
)
MEMBERS = st.lists(
    st.tuples(NAMES, st.sampled_from(["file", "folder", "link", "hard"]), NAMES), min_size=1, max_size=12
)


@pytest.mark.behaviour("INS-21")
@settings(max_examples=100, deadline=None)
@given(members=MEMBERS)
def test_archive_writes_nothing_outside_the_folder(
    tmp_path_factory: pytest.TempPathFactory, members: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    kinds = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type = kinds[kind]
            member.linkname = target
            archive.addfile(member)
    (folder / "a").mkdir()
    (folder / "a" / "b").write_text("untouched")
    before = files_below(folder)
    try:
        unpack(folder, buffer.getvalue(), is_layer=True)
    except InstallFailed as error:
        assert error.slug == "bad_package"  # noqa: PT017 - refusing is as good as unpacking
    else:
        for path in (folder / "target").rglob("*"):
            # Links that lead in a circle lead nowhere.
            assert Path(os.path.realpath(path)).is_relative_to(folder / "target")
    new = {name for name in files_below(folder) - before if not name.startswith(("target/", "archive-"))}
    assert new == set()
    assert before - files_below(folder) == set()
