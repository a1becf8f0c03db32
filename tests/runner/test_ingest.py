"""A run that reads a document: formats, bombs, refusals of the embedding model, and going on behind stored chunks."""

from __future__ import annotations

import base64
import io
import os
import pwd
import struct
import zipfile
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import openpyxl
import pptx
import pytest
from aiohttp import web

from corral.runner import document_program
from corral.wire.runner_protocol import ProgramLimits
from tests.runner.scene import TICKET, Message, Scene, run_scene

HOST = "schemas.openxmlformats.org"
WORD = f"http://{HOST}/wordprocessingml/2006/main"
CONTENT_TYPES = (
    f'<?xml version="1.0"?><Types xmlns="http://{HOST}/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    'wordprocessingml.document.main+xml"/></Types>'
)
RELATIONS = (
    f'<?xml version="1.0"?><Relationships xmlns="http://{HOST}/package/2006/relationships">'
    f'<Relationship Id="r1" Type="http://{HOST}/officeDocument/2006/relationships/officeDocument"'
    ' Target="word/document.xml"/></Relationships>'
)


def make_pdf(stream: bytes, more: str = "") -> bytes:
    head = (
        "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R"
        "/Resources<</Font<</F1 5 0 R>>>>>>endobj\n"
        f"4 0 obj<</Length {len(stream)}{more}>>stream\n"
    )
    tail = "\nendstream endobj\n5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R>>"
    return head.encode() + stream + tail.encode()


def make_docx(text: str) -> bytes:
    document = f'<?xml version="1.0"?><w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p>'
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", CONTENT_TYPES)
        archive.writestr("_rels/.rels", RELATIONS)
        archive.writestr("word/document.xml", f"{document}</w:body></w:document>")
    return made.getvalue()


def make_xlsx(text: str) -> bytes:
    book, made = openpyxl.Workbook(), io.BytesIO()
    book.active["B2"] = text
    book.save(made)
    return made.getvalue()


def make_pptx(text: str) -> bytes:
    slides, made = pptx.Presentation(), io.BytesIO()
    slides.slides.add_slide(slides.slide_layouts[5]).shapes.title.text = text
    slides.save(made)
    return made.getvalue()


@dataclass
class EmbeddingServer:
    """Answers with embeddings of two numbers: the length of a text, and 1. First with the statuses of the test."""

    statuses: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {TICKET}"
        body = await request.json()
        if self.statuses:
            error = {"code": "x", "message": "The model is away."}
            return web.json_response({"error": error}, status=self.statuses.pop(0), headers={"Retry-After": "0"})
        self.texts += body["input"]
        data = [{"index": n, "embedding": [float(len(text)), 1.0]} for n, text in enumerate(body["input"])]
        return web.json_response({"data": data[::-1], "usage": {"prompt_tokens": len(data)}})


@asynccontextmanager
async def serving(server: EmbeddingServer) -> AsyncIterator[str]:
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/embeddings", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@dataclass
class StoredDocument:
    """What the frontends would store, and the document that they have."""

    content: bytes
    chunks: dict[int, tuple[str, str]] = field(default_factory=dict)
    total: int | None = None

    def answer(self, message: Message) -> Message:
        params = message["params"]
        if message["method"] == "read_document":
            # Small slices, so that a document comes in several.
            piece = self.content[params["start"] : params["start"] + 100_000]
            return {"result": {"content": base64.b64encode(piece).decode()}}
        for index, pair in enumerate(zip(params["contents"], params["embeddings"], strict=True)):
            self.chunks[params["first"] + index] = pair
        self.total = params.get("total", self.total)
        return {"result": {"stored": len(self.chunks)}}

    @property
    def text(self) -> str:
        return "\n".join(self.chunks[number][0] for number in sorted(self.chunks))


async def ingest(scene: Scene, document: StoredDocument, name: str, **extra: Any) -> Any:
    scene.ask_answers = document.answer
    fields = {"name": name, "chunk_size": 400, "chunk_overlap": 0, "next_chunk": 0, "chunks_per_delivery": 4} | extra
    return await scene.run(kind="ingest", extra=fields, budgets={"wall_s": 60.0})


@pytest.fixture
def server() -> EmbeddingServer:
    return EmbeddingServer()


@pytest.fixture
async def scene(server: EmbeddingServer) -> AsyncIterator[Scene]:
    """A runner that reads documents as a worker of root has them read: as another user."""
    limits = ProgramLimits()
    if os.geteuid() == 0:
        other = pwd.getpwnam("nobody")
        limits = ProgramLimits(uid=other.pw_uid, gid=other.pw_gid)
    async with serving(server) as url, run_scene(url, limits=limits) as opened:
        yield opened


@pytest.mark.behaviour("KNOW-18")
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.pdf", make_pdf(b"BT /F1 18 Tf 20 100 Td (The pump) Tj ET"), "The pump"),
        ("a.docx", make_docx("The pump"), "The pump"),
        ("a.xlsx", make_xlsx("The pump"), "# Sheet\n\n | The pump"),
        ("a.pptx", make_pptx("The pump"), "# Slide 1\n\nThe pump"),
        ("a.html", b"<style>x{}</style><h1>The</h1><p>pump <script>y</script>", "# The\n\npump"),
        ("a.md", "\ufeff# The\n\npump\x00 ü".encode(), "# The\n\npump  ü"),
        ("a.txt", "Zürich".encode("cp1252"), "Zürich"),
        ("a.csv", "a;b".encode("utf-16"), "a;b"),
    ],
)
async def test_text_of_each_format_is_read_cut_and_embedded(
    scene: Scene, server: EmbeddingServer, name: str, content: bytes, expected: str
) -> None:
    document = StoredDocument(content)
    outcome = await ingest(scene, document, name)
    assert (outcome.state, document.text, document.total) == ("completed", expected, 1), outcome
    assert server.texts == [expected]
    assert struct.unpack("<2f", base64.b64decode(document.chunks[0][1])) == (float(len(expected)), 1.0)
    assert outcome.usage["prompt_tokens"] == 1


@pytest.mark.behaviour("KNOW-2")
async def test_chunks_are_delivered_in_order_and_a_second_attempt_embeds_only_what_is_missing(
    scene: Scene, server: EmbeddingServer
) -> None:
    text = "\n\n".join(f"Sentence {number} has some words." for number in range(40))
    whole = StoredDocument(text.encode())
    assert (await ingest(scene, whole, "a.md", chunk_size=60)).state == "completed"
    assert whole.total == len(whole.chunks) == 20
    server.texts.clear()
    rest = StoredDocument(text.encode(), chunks={n: whole.chunks[n] for n in range(14)})
    outcome = await scene_again(scene, rest)
    assert (outcome.state, rest.total, rest.chunks) == ("completed", 20, whole.chunks)
    # Whole deliveries of four.
    assert len(server.texts) == 8


async def scene_again(scene: Scene, document: StoredDocument) -> Any:
    scene.ask_answers = document.answer
    extra = {"name": "a.md", "chunk_size": 60, "chunk_overlap": 0, "next_chunk": 14, "chunks_per_delivery": 4}
    return await scene.run(kind="ingest", run_id="r2", extra=extra, budgets={"wall_s": 60.0})


@pytest.mark.behaviour("KNOW-19")
async def test_pdf_that_unpacks_to_gigabytes_fails_and_the_runner_goes_on(scene: Scene) -> None:
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b" " * 2**20) for _ in range(2500)) + packer.flush()
    twice = zlib.compress(packed, 9)
    bomb = make_pdf(twice, "/Filter[/FlateDecode/FlateDecode]")
    assert len(bomb) < 100_000
    outcome = await ingest(scene, StoredDocument(bomb), "bomb.pdf")
    assert outcome.state == "failed", outcome
    assert outcome.error_code in ("document_too_large", "document_unreadable", "document_empty")
    assert (await ingest_second(scene, b"# Fine")).state == "completed"


async def ingest_second(scene: Scene, content: bytes) -> Any:
    document = StoredDocument(content)
    scene.ask_answers = document.answer
    return await scene.run(kind="ingest", run_id="r2", extra={"name": "a.md"}, budgets={"wall_s": 60.0})


@pytest.mark.behaviour("KNOW-19")
@pytest.mark.parametrize("name", ["bomb.docx", "bomb.xlsx", "bomb.pptx"])
async def test_office_file_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(scene: Scene, name: str) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(9):
            archive.writestr(f"word/{number}.xml", b" " * (64 * 1024**2))
    assert document_program.UNPACKED_BYTES_MAX < 9 * 64 * 1024**2
    outcome = await ingest(scene, StoredDocument(made.getvalue()), name)
    assert (outcome.state, outcome.error_code) == ("failed", "document_too_large")
    assert "unpacks to more than" in outcome.error_text


@pytest.mark.behaviour("KNOW-19")
async def test_document_with_too_many_chunks_is_refused(scene: Scene, server: EmbeddingServer) -> None:
    text = "\n\n".join(f"Part {number} of a text that is longer than half a chunk." for number in range(20_500))
    outcome = await ingest(scene, StoredDocument(text.encode()), "long.md", chunk_size=60)
    assert (outcome.error_code, server.texts) == ("document_too_large", [])


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.pdf", b"not a PDF", "document_unreadable"),
        ("a.docx", b"PK\x03\x04broken", "document_unreadable"),
        ("a.xlsx", make_docx("x"), "document_unreadable"),
        ("a.txt", b"\x00\x01\x02\xff", "document_unreadable"),
        ("a.txt", b"  \n ", "document_empty"),
        ("a.pdf", make_pdf(b""), "document_empty"),
        ("a.exe", b"MZ", "unsupported_document"),
    ],
)
async def test_document_that_is_broken_or_empty_fails_with_a_sentence(
    scene: Scene, server: EmbeddingServer, name: str, content: bytes, code: str
) -> None:
    outcome = await ingest(scene, StoredDocument(content), name)
    assert (outcome.state, outcome.error_code) == ("failed", code)
    assert outcome.error_text.endswith(".") or outcome.error_text.endswith(")."), outcome.error_text
    assert server.texts == []


async def test_refusal_of_the_model_that_passes_is_waited_for_and_another_one_is_the_end(
    scene: Scene, server: EmbeddingServer
) -> None:
    server.statuses = [503, 429, 502]
    assert (await ingest(scene, StoredDocument(b"x"), "a.md")).state == "completed"
    server.statuses = [404]
    document = StoredDocument(b"x")
    scene.ask_answers = document.answer
    outcome = await scene.run(kind="ingest", run_id="r2", extra={"name": "a.md"})
    assert (outcome.state, outcome.error_text) == ("failed", "The model is away.")
    assert document.chunks == {}
