"""Reads one document and cuts its text into chunks: a process of its own, because a document may be malicious.

    python -m corral.runner.document_program KIND SIZE OVERLAP UID GID < document > chunks as a JSON list

Guarantees: memory, time and the files that it may write are limited before the first byte is parsed, and a process that
was started by root is another user by then. What goes wrong is the last line on stderr, and an exit code says whether
the document is too large; libraries raise anything for a broken one. Limit: it can still open connections; no library
that it uses does.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import io
import json
import os
import re
import resource
import signal
import sys
import zipfile
from collections.abc import Callable
from typing import Any

from corral.policy.documents import CHUNKS_MAX, ENTRY_BYTES_MAX, DocumentKind

# A page with many pictures; text needs a tenth of it.
MEMORY_BYTES_MAX = 1024**3
# A thousand pages take some ten seconds.
CPU_S_MAX = 120
PAGES_MAX = 10_000
# An office file is an archive: what it unpacks to.
UNPACKED_BYTES_MAX = 512 * 1024**2
UNPACKED_FILES_MAX = 20_000
CELLS_MAX = 2_000_000
# As many chunks of the least size as an entry may have.
TEXT_CHARS_MAX = 16_000_000
TOO_LARGE, UNREADABLE = 3, 4
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
# Python imports them when a text is first decoded, which another user may not be able to.
_CODECS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1", "ascii", "idna", "cp437")
# What PostgreSQL cannot store: NUL, and halves of surrogate pairs.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class DocumentProblem(Exception):
    """Says why the text of a document cannot be read, with the exit code for it."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def main(arguments: list[str]) -> int:
    kind, size, overlap, uid, gid = DocumentKind(arguments[0]), *map(int, arguments[1:5])
    content = sys.stdin.buffer.read(ENTRY_BYTES_MAX + 1)
    # Libraries are imported with the rights of the worker: another user may not read where they are installed.
    convert, split = _load_reader(kind), _load_splitter(size, overlap)
    for codec in _CODECS:
        codecs.lookup(codec)
    _limit(uid, gid)
    try:
        text = _UNSTORABLE.sub(" ", convert(content))
        _require_at_most(TEXT_CHARS_MAX, len(text), "characters of text")
        chunks = split(text)
        _require_at_most(CHUNKS_MAX, len(chunks), "chunks")
    except DocumentProblem as error:
        return _end(error.code, str(error))
    except MemoryError:
        return _end(TOO_LARGE, f"Reading the document needs more than {MEMORY_BYTES_MAX // 1024**2} MiB of memory.")
    sys.stdout.buffer.write(json.dumps(chunks).encode())
    sys.stdout.buffer.flush()
    return 0


def _require_at_most(limit: int, count: int, what: str) -> None:
    if count > limit:
        raise DocumentProblem(TOO_LARGE, f"The document has more than {limit} {what}.")


def _end(code: int, sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()
    return code


def _limit(uid: int, gid: int) -> None:
    for what, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CPU, CPU_S_MAX),
        (resource.RLIMIT_DATA, MEMORY_BYTES_MAX),
    ):
        _, hard = resource.getrlimit(what)
        lowered = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (lowered, lowered))
    if uid >= 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _load_splitter(size: int, overlap: int) -> Callable[[str], list[str]]:
    from semantic_text_splitter import MarkdownSplitter

    return MarkdownSplitter(size, overlap).chunks


def _load_reader(kind: DocumentKind) -> Callable[[bytes], str]:
    match kind:
        case DocumentKind.TEXT | DocumentKind.MARKDOWN:
            return _decode
        case DocumentKind.HTML:
            markdownify = _load_markdownify()
            return lambda content: markdownify(_decode(content))
        case DocumentKind.PDF:
            return _load_pdf_reader()
        case DocumentKind.DOCX:
            return _load_docx_reader()
        case DocumentKind.PPTX:
            return _load_pptx_reader()
        case DocumentKind.XLSX:
            return _load_xlsx_reader()


def _decode(content: bytes) -> str:
    for encoding in ("utf-8-sig", "utf-16") if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig",):
        with contextlib.suppress(UnicodeDecodeError):
            return content.decode(encoding)
    if b"\x00" in content[:8192]:
        raise DocumentProblem(UNREADABLE, "The document is not text.")
    # Every byte is a character of this encoding, which old documents are in.
    return content.decode("cp1252", "replace")


def _load_markdownify() -> Callable[[str], str]:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    converter = MarkdownConverter(heading_style="atx")

    def convert(text: str) -> str:
        soup = BeautifulSoup(text, "html.parser")
        for tag in soup(["script", "style", "noscript", "template", "svg", "img"]):
            tag.decompose()
        return str(converter.convert_soup(soup))

    return convert


def _load_pdf_reader() -> Callable[[bytes], str]:
    import pypdfium2

    def read(content: bytes) -> str:
        try:
            document = pypdfium2.PdfDocument(content)
        except pypdfium2.PdfiumError as error:
            text = "The PDF is damaged, or a password protects it."
            raise DocumentProblem(UNREADABLE, text) from error
        if len(document) > PAGES_MAX:
            raise DocumentProblem(TOO_LARGE, f"The PDF has {len(document)} pages, and {PAGES_MAX} are the limit.")
        pages: list[str] = []
        left = TEXT_CHARS_MAX
        for page in document:
            pages.append(page.get_textpage().get_text_bounded().replace("\r\n", "\n"))
            page.close()
            left -= len(pages[-1])
            if left < 0:
                raise DocumentProblem(TOO_LARGE, f"The PDF has more than {TEXT_CHARS_MAX} characters of text.")
        return "\n\n".join(pages)

    return read


def _open_archive(content: bytes) -> io.BytesIO:
    """Return the bytes of an office file. Raises if it would unpack to more than a document has."""
    stream = io.BytesIO(content)
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
    if len(members) > UNPACKED_FILES_MAX or sum(one.file_size for one in members) > UNPACKED_BYTES_MAX:
        raise DocumentProblem(TOO_LARGE, f"The document unpacks to more than {UNPACKED_BYTES_MAX // 1024**2} MiB.")
    stream.seek(0)
    return stream


def _load_docx_reader() -> Callable[[bytes], str]:
    # Imported by mammoth with the first document, which another user may not be able to.
    import xml.dom.expatbuilder  # noqa: F401 - the limits of this process hold for what it expands to

    import mammoth

    markdownify = _load_markdownify()

    def drop_image(_: Any) -> dict[str, str]:
        return {"src": ""}

    def read(content: bytes) -> str:
        images = mammoth.images.img_element(drop_image)
        return markdownify(mammoth.convert_to_html(_open_archive(content), convert_image=images).value)

    return read


def _load_pptx_reader() -> Callable[[bytes], str]:
    import pptx

    def read(content: bytes) -> str:
        slides = []
        for number, slide in enumerate(pptx.Presentation(_open_archive(content)).slides, start=1):
            texts = [text for shape in slide.shapes for text in _iter_shape_texts(shape)]
            if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
                texts.append(slide.notes_slide.notes_text_frame.text)
            slides.append("\n\n".join([f"# Slide {number}", *filter(None, texts)]))
        return "\n\n".join(slides)

    return read


def _iter_shape_texts(shape: Any) -> Any:
    if shape.has_text_frame:
        yield shape.text_frame.text
    if getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield " | ".join(cell.text for cell in row.cells)
    for inner in getattr(shape, "shapes", ()):
        yield from _iter_shape_texts(inner)


def _load_xlsx_reader() -> Callable[[bytes], str]:
    import openpyxl

    def read(content: bytes) -> str:
        book = openpyxl.load_workbook(_open_archive(content), read_only=True, data_only=True)
        lines: list[str] = []
        cells = 0
        for sheet in book.worksheets:
            lines.append(f"\n# {sheet.title}\n")
            for row in sheet.iter_rows(values_only=True):
                cells += len(row)
                if cells > CELLS_MAX:
                    raise DocumentProblem(TOO_LARGE, f"The workbook has more than {CELLS_MAX} cells.")
                if any(value is not None for value in row):
                    lines.append(" | ".join("" if value is None else str(value) for value in row))
        return "\n".join(lines)

    return read


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
