"""The inbox: what arrives in pieces, what is refused, and what is never seen."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.domain.errors import CorralError, InvalidRequest, NotAllowed, NotFound, TooLarge
from corral.transfer import inbox as inboxes
from corral.transfer.inbox import (
    CONTENT_HEADER,
    LOCAL_PATH_HEADER,
    SIZE_HEADER,
    TARGET_HEADER,
    Inbox,
    InboxResponse,
    InboxUpload,
)

BODY = os.urandom(3_000_000)
SHA = hashlib.sha256(BODY).hexdigest()
KEY = "models/tiny/weights.gguf"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "inbox"


@pytest.fixture
def inbox(root: Path) -> Inbox:
    return Inbox(root, shows_paths=True)


async def body_of(*pieces: bytes, breaks: bool = False) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    if breaks:
        raise ConnectionResetError("gone")


async def put(inbox: Inbox, data: bytes, *, sha: str = "", key: str = KEY) -> InboxResponse:
    return await inbox.receive(key, InboxUpload(body=body_of(data), sha256=sha))


async def piece(
    inbox: Inbox, start: int, end: int, *, sha: str = SHA, total: int = len(BODY), data: bytes | None = None
) -> InboxResponse:
    data = BODY[start:end] if data is None else data
    return await inbox.receive(
        KEY, InboxUpload(body=body_of(data), sha256=sha, content_range=f"bytes {start}-{end - 1}/{total}")
    )


def seen(root: Path) -> list[str]:
    """Return everything that could be taken for a file."""
    files = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    return sorted(name for name in files if not name.startswith(".inbox/"))


def get_error_code(answer: InboxResponse) -> str:
    assert answer.body is not None
    return str(answer.body["error"]["code"])


@pytest.mark.behaviour("OPS-101")
async def test_body_becomes_a_file_when_it_is_complete_and_right(inbox: Inbox, root: Path) -> None:
    answer = await put(inbox, BODY, sha=SHA)
    assert (answer.status, answer.headers[CONTENT_HEADER]) == (200, SHA)
    assert answer.body == {"sha256": SHA, "local_path": str(root.resolve() / KEY)}
    assert inbox.find_file(KEY).read_bytes() == BODY
    probed = await inbox.probe(KEY)
    assert (probed.status, probed.headers[SIZE_HEADER], probed.headers[CONTENT_HEADER]) == (200, str(len(BODY)), SHA)
    assert probed.headers[LOCAL_PATH_HEADER] == str(root.resolve() / KEY)
    assert TARGET_HEADER not in probed.headers


@pytest.mark.behaviour("OPS-101", "NODE-129")
async def test_pieces_are_gathered_out_of_sight(inbox: Inbox, root: Path) -> None:
    first = await piece(inbox, 0, 1_000_000)
    assert (first.status, first.headers[SIZE_HEADER]) == (308, "1000000")
    probed = await inbox.probe(KEY, SHA)
    assert (probed.headers[SIZE_HEADER], probed.headers[TARGET_HEADER]) == ("1000000", SHA)
    assert CONTENT_HEADER not in probed.headers
    assert seen(root) == []
    with pytest.raises(NotFound):
        inbox.find_file(KEY)
    last = await piece(inbox, 1_000_000, len(BODY))
    assert (last.status, last.headers[CONTENT_HEADER]) == (200, SHA)
    assert seen(root) == [KEY]
    assert inbox.find_file(KEY).read_bytes() == BODY


@pytest.mark.behaviour("NODE-131", "OPS-101")
async def test_wrong_offset_is_answered_with_the_right_one(inbox: Inbox) -> None:
    await piece(inbox, 0, 1000)
    for start in (0, 999, 1001, 2000):
        answer = await piece(inbox, start, start + 10)
        assert (answer.status, answer.headers[SIZE_HEADER], get_error_code(answer)) == (416, "1000", "wrong_offset")


@pytest.mark.behaviour("NODE-131", "OPS-101")
async def test_upload_of_other_content_is_noticed_and_may_begin_again(inbox: Inbox) -> None:
    await piece(inbox, 0, 1000)
    other = hashlib.sha256(b"other").hexdigest()
    answer = await piece(inbox, 1000, 2000, sha=other)
    assert (answer.status, get_error_code(answer)) == (409, "content_changed")
    assert (await inbox.probe(KEY)).status == 404
    await piece(inbox, 0, 1000)
    # From its beginning, other content takes the place.
    done = await piece(inbox, 0, 5, sha=other, total=5, data=b"other")
    assert (done.status, inbox.find_file(KEY).read_bytes()) == (200, b"other")


@pytest.mark.behaviour("NODE-131", "OPS-101")
async def test_upload_with_a_wrong_hash_is_deleted(inbox: Inbox, root: Path) -> None:
    assert (await put(inbox, b"wrong", sha=SHA)).status == 400
    await piece(inbox, 0, 1000)
    answer = await piece(inbox, 1000, len(BODY), data=bytes(len(BODY) - 1000))
    assert (answer.status, get_error_code(answer)) == (400, "digest_mismatch")
    assert (await inbox.probe(KEY)).status == 404
    assert [path for path in root.rglob("*") if path.is_file()] == []


@pytest.mark.behaviour("OPS-101")
async def test_replacement_that_turns_out_wrong_leaves_the_file_as_it_was(inbox: Inbox) -> None:
    await put(inbox, BODY, sha=SHA)
    assert (await put(inbox, b"wrong", sha=hashlib.sha256(b"right").hexdigest())).status == 400
    assert inbox.find_file(KEY).read_bytes() == BODY


@pytest.mark.behaviour("OPS-101")
async def test_upload_probe_gives_its_sender_the_partial_content_and_others_the_whole(inbox: Inbox) -> None:
    await put(inbox, b"old")
    await piece(inbox, 0, 1000)
    assert (await inbox.probe(KEY, SHA)).headers[TARGET_HEADER] == SHA
    assert (await inbox.probe(KEY)).headers[CONTENT_HEADER] == hashlib.sha256(b"old").hexdigest()
    assert inbox.find_file(KEY).read_bytes() == b"old"


@pytest.mark.behaviour("OPS-101")
async def test_bytes_before_a_broken_connection_are_kept(inbox: Inbox) -> None:
    upload = InboxUpload(
        body=body_of(BODY[:700_000], breaks=True), sha256=SHA, content_range=f"bytes 0-{len(BODY) - 1}/{len(BODY)}"
    )
    with pytest.raises(ConnectionResetError):
        await inbox.receive(KEY, upload)
    assert (await inbox.probe(KEY)).headers[SIZE_HEADER] == "700000"
    assert (await piece(inbox, 700_000, len(BODY))).status == 200


async def test_short_upload_body_is_reported_and_a_long_one_refused(inbox: Inbox) -> None:
    answer = await piece(inbox, 0, 1000, data=BODY[:900])
    assert (answer.status, get_error_code(answer), answer.headers[SIZE_HEADER]) == (400, "short_body", "900")
    with pytest.raises(TooLarge):
        await piece(inbox, 900, 1000, data=BODY[900:1001])
    assert (await inbox.probe(KEY)).headers[SIZE_HEADER] == "900"


@pytest.mark.behaviour("NODE-130")
async def test_complete_file_is_a_success_at_any_offset(inbox: Inbox) -> None:
    assert (await piece(inbox, 0, len(BODY))).status == 200
    for start, end in ((0, len(BODY)), (1000, len(BODY)), (0, 10)):
        answer = await piece(inbox, start, end)
        assert (answer.status, answer.headers[CONTENT_HEADER]) == (200, SHA)


@pytest.mark.behaviour("NODE-130")
async def test_complete_part_of_a_killed_receiver_becomes_a_file_at_the_next_request(inbox: Inbox, root: Path) -> None:
    await piece(inbox, 0, len(BODY) - 1)
    (part,) = root.rglob("*.part")
    with part.open("ab") as file:
        file.write(BODY[-1:])
    probed = await Inbox(root).probe(KEY, SHA)
    assert probed.headers[CONTENT_HEADER] == SHA
    assert inbox.find_file(KEY).read_bytes() == BODY


async def test_two_senders_of_one_key_come_one_after_the_other(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "BUSY_S", 0.05)
    going, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield BODY[:1000]
        going.set()
        await may_end.wait()
        yield BODY[1000:2000]

    first = asyncio.create_task(
        inbox.receive(KEY, InboxUpload(body=slow(), sha256=SHA, content_range=f"bytes 0-1999/{len(BODY)}"))
    )
    await going.wait()
    with pytest.raises(CorralError) as busy:
        await piece(inbox, 0, 1000)
    assert (busy.value.slug, busy.value.status) == ("upload_busy", 503)
    # Another key has nothing to do with it.
    assert (await put(inbox, b"x", key="other")).status == 200
    may_end.set()
    assert (await first).headers[SIZE_HEADER] == "2000"


@pytest.mark.behaviour("NODE-132")
@pytest.mark.parametrize(
    "key", ["../x", "a/../../x", "/etc/passwd", "a/..", "..", ".", "", "a\x00b", ".inbox/x", "./.inbox/x"]
)
async def test_keys_that_lead_out_are_refused(inbox: Inbox, root: Path, key: str) -> None:
    for ask in (lambda: inbox.probe(key), lambda: put(inbox, b"x", key=key)):
        with pytest.raises((NotAllowed, InvalidRequest)):
            await ask()
    with pytest.raises((NotAllowed, InvalidRequest)):
        inbox.find_file(key)
    assert not (root.parent / "x").exists()


@pytest.mark.behaviour("NODE-132")
async def test_links_that_lead_out_are_refused(inbox: Inbox, root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("secret")
    root.mkdir()
    (root / "folder").symlink_to(elsewhere)
    (root / "file").symlink_to(elsewhere / "secret")
    (root / "loop").symlink_to(root / "loop")
    for key in ("folder/secret", "folder/new", "folder/deep/new", "file", "loop", "loop/x"):
        with pytest.raises(NotAllowed):
            await put(inbox, b"x", key=key)
        with pytest.raises(NotAllowed):
            inbox.find_file(key)
    assert [path.name for path in elsewhere.iterdir()] == ["secret"]
    assert (elsewhere / "secret").read_text() == "secret"


async def test_folders_and_files_are_not_mixed_up(inbox: Inbox) -> None:
    await put(inbox, b"x", key="a/b")
    assert (await inbox.probe("a")).status == 400
    assert (await put(inbox, b"x", key="a")).status == 400
    with pytest.raises(InvalidRequest):
        await put(inbox, b"x", key="a/b/c/d")
    assert (await inbox.probe("nothing")).status == 404


async def test_ranges_that_make_no_sense_are_refused(inbox: Inbox) -> None:
    for text in ("bytes 5-4/10", "bytes 0-10/10", "bytes */10", "items 0-1/2", "bytes 0-1/*", "nonsense"):
        with pytest.raises(InvalidRequest):
            await inbox.receive(KEY, InboxUpload(body=body_of(b"x"), sha256=SHA, content_range=text))
    with pytest.raises(InvalidRequest):
        await piece(inbox, 0, 10, sha="")
    with pytest.raises(InvalidRequest):
        await piece(inbox, 0, 10, sha="../../etc/passwd")


async def test_file_that_is_too_large_is_refused_before_its_bytes(root: Path) -> None:
    small = Inbox(root, limit_bytes=1000)
    with pytest.raises(TooLarge):
        await piece(small, 0, 10)
    with pytest.raises(TooLarge):
        await put(small, bytes(1001))
    assert seen(root) == []
    assert (await put(small, bytes(1000))).status == 200


async def test_file_is_deleted_with_all_that_is_known_of_it(inbox: Inbox, root: Path) -> None:
    await put(inbox, BODY)
    assert await inbox.delete(KEY)
    assert not await inbox.delete(KEY)
    assert [path for path in root.rglob("*") if path.is_file()] == []


async def test_abandoned_parts_are_deleted(inbox: Inbox, root: Path) -> None:
    await piece(inbox, 0, 1000)
    await put(inbox, b"whole", key="other")
    (part,) = root.rglob("*.part")
    began = part.stat().st_mtime
    assert await inbox.collect_garbage(began - 1) == []
    assert await inbox.collect_garbage(began + 1, dry_run=True) == [(part, 1000)]
    assert await inbox.collect_garbage(began + 1) == [(part, 1000)]
    assert (await inbox.probe(KEY)).status == 404
    assert inbox.find_file("other").read_bytes() == b"whole"


async def test_hash_is_computed_again_when_a_file_was_changed_behind_our_back(inbox: Inbox) -> None:
    await put(inbox, BODY)
    inbox.find_file(KEY).write_bytes(b"changed")
    assert (await inbox.probe(KEY)).headers[CONTENT_HEADER] == hashlib.sha256(b"changed").hexdigest()
