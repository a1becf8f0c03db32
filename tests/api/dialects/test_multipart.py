"""The model's name in a form, found while the form comes in."""

from __future__ import annotations

import asyncio
import io

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.api.dialects.uploads import ModelNameFinder, ModelNameSpan, UploadForm
from corral.api.openai.file_form import HEAD_BYTES_MAX, parse_boundary
from corral.domain.errors import InvalidRequest
from corral.gateway.exchange.gateway import UPLOAD_LIMITS
from corral.runtime.byte_budget import ByteBudget, ByteLease

HEAD = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n'


def part(name: str, value: bytes, more: bytes = b"") -> bytes:
    return b'--b\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (name.encode(), more, value)


def find(body: bytes, piece_bytes: int = 1) -> ModelNameSpan | None:
    reader = ModelNameFinder(b"b")
    for start in range(0, len(body), piece_bytes):
        reader.feed(body[start : start + piece_bytes])
    return reader.found


@given(
    before=st.binary(max_size=200),
    name=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n-"), max_size=50),
    after=st.binary(max_size=50),
    piece_bytes=st.integers(min_value=1, max_value=80),
)
def test_model_name_is_found_at_any_position_and_in_any_pieces(
    before: bytes, name: str, after: bytes, piece_bytes: int
) -> None:
    file = part("file", before.replace(b"\r\n--b", b""), b'; filename="a.wav"\r\nContent-Type: audio/wav')
    body = file + part("model", name.encode()) + part("prompt", after) + b"--b--\r\n"
    found = find(body, piece_bytes)
    assert found is not None
    assert found.value == name
    assert body[found.start : found.end] == name.encode()


async def test_forms_of_a_real_client_are_read() -> None:
    made = aiohttp.FormData()
    made.add_field("file", b"\r\n--x" * 1000, filename="speech.wav", content_type="audio/wav")
    made.add_field("model", "whisper")
    payload = made()
    written = io.BytesIO()

    class Writer:
        async def write(self, chunk: bytes) -> None:
            written.write(chunk)

    await payload.write(Writer())  # type: ignore[arg-type]
    reader = ModelNameFinder(parse_boundary(str(payload.headers["Content-Type"])))
    found = reader.feed(written.getvalue())
    assert found is not None
    assert found.value == "whisper"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"preamble\r\n" + HEAD, "does not begin"),
        (b"--bx\r\n", "a boundary is followed"),
        (b"--b\r\nContent-Type: text/plain\r\n\r\nx", "no name"),
        (b'--b\r\nContent-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name="b"\r\n\r\n', "two"),
        (b"--b\r\nX: " + b"x" * HEAD_BYTES_MAX + b"\r\n", "too long"),
        (HEAD + b"x" * 2000, "too long"),
        (HEAD + b"\xff\xfe\r\n--b--", "not UTF-8"),
        (HEAD.replace(b"\r\n\r\n", b"\r\nContent-Transfer-Encoding: base64\r\n\r\n") + b"eA==\r\n--b--", "encoded"),
        (part("file", b"x") + b"--b--\r\n", "no part named model"),
    ],
)
def test_body_that_is_no_form_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        find(body, 11)


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=abc", b"abc"),
        ('Multipart/Form-Data; charset=utf-8; boundary="a b"', b"a b"),
    ],
)
def test_boundary_is_read(content_type: str, boundary: bytes) -> None:
    assert parse_boundary(content_type) == boundary


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "multipart/form-data",
        "multipart/mixed; boundary=x",
        f"multipart/form-data; boundary={'x' * 71}",
    ],
)
def test_form_with_another_content_type_is_refused(content_type: str) -> None:
    with pytest.raises(InvalidRequest, match="multipart/form-data"):
        parse_boundary(content_type)


@given(cuts=st.lists(st.integers(min_value=1, max_value=400), max_size=6))
def test_form_gets_another_name_and_is_the_same_otherwise(cuts: list[int]) -> None:
    body = part("file", b"sound " * 40) + part("model", b"alias") + part("language", b"en") + b"--b--\r\n"

    async def arriving():
        start = 0
        for size in [*cuts, len(body)]:
            if piece := body[start : start + size]:
                yield piece
            start += size

    async def passed_on() -> bytes:
        form = UploadForm(io.BytesIO(), arriving(), ByteLease(ByteBudget(UPLOAD_LIMITS, "of uploads")))
        named = await form.read_name(b"b")
        return b"".join([piece async for piece in form.iter_renamed(named, b"whisper-base")])

    assert asyncio.run(passed_on()) == body.replace(b"alias", b"whisper-base")
