"""What it takes to read 1,000 pages into a collection, and to search among 100,000 chunks.

Reading: a PDF of 1,000 pages and 200 short Markdown files, through the API, one agent worker and the engine `fake` as
the embedding model, which answers at once: an embedding model would only add its own time. Searching: the product's
own functions on the cluster's PostgreSQL, with vectors that are made up around 1,000 centres, as those of texts are
around topics, and texts whose words are as frequent as those of a language. Recall is the share of the nearest chunks
by a search of all that is found by an index. Baselines in the same run: a search of all chunks, and an IVFFlat index.
Limits: loopback, and everything shares the machine's cores.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from sqlalchemy import text

from bench.agents import AgentBench
from bench.cluster import BenchCluster, run_cluster
from bench.report import ReportRow, format_table, print_progress
from corral.adapters.system import SystemIdGenerator
from corral.domain.access import parse_owner
from corral.domain.collection import SearchQuery
from corral.store import chunks as chunk_store
from corral.store import collections as store
from corral.store.chunks import ChunkTarget, NewChunk
from corral.store.collections import NewCollection
from corral.store.database import Database

BASE = "/api/agents/collections"
PAGES = 1000
FILES = 200
WORDS_PER_PAGE = 300
CHUNKS = 100_000
DIMENSION = 384
CENTRES = 1000
# Of a chunk of 400 characters.
WORDS_PER_CHUNK = 60
VOCABULARY = 20_000
PER_INSERT = 64
QUERIES = 100
RESULTS = 10
IVF_LISTS = 316
IVF_PROBES = 18
LIMIT_S = 1800.0
_ids = SystemIdGenerator()


def run() -> str:
    with run_cluster() as running, tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        return asyncio.run(_measure(running, Path(folder)))


async def _measure(running: BenchCluster, folder: Path) -> str:
    async with aiohttp.ClientSession() as http:
        # This cluster counts no statements: the file stays absent.
        bench = KnowledgeBench(running, folder, http, folder / "statements")
        reading = await _measure_reading(bench)
    print_progress(reading)
    database = Database(running.database_url)
    try:
        return f"{reading}\n{await _measure_search(database)}"
    finally:
        await database.close()


# --- reading ---


class KnowledgeBench(AgentBench):
    """Uploads documents to a collection of the cluster, and waits until they are read."""

    async def prepare(self) -> None:
        """Make the embedding model, a join token and the collection."""
        token = {"name": "bench", "max_uses": 3, "approves": True}
        self.token = (await self.call("POST", "/api/tokens", token))["token"]
        options = {"tokens_per_s": "100000", "slots": "256"}
        await self.call("PUT", "/api/models/config/bench", {"backend": "fake", "options": options})
        await self.call("POST", BASE, {"name": "manuals", "embedding_model": "bench"})

    async def upload(self, name: str, content: bytes) -> str:
        """Upload a document, and return the run that reads it."""
        form = aiohttp.FormData()
        form.add_field("file", content, filename=name)
        headers = {"Authorization": f"Bearer {self.running.admin_key}"}
        url = f"{self.running.url}{BASE}/manuals/upload"
        async with self._http.post(url, data=form, headers=headers) as response:
            answer = await response.json()
            assert response.status == 201, answer
            return str(answer["entry"]["run_id"])

    async def count_chunks(self) -> int:
        return int((await self.call("GET", f"{BASE}/manuals"))["chunks"])


async def _measure_reading(bench: KnowledgeBench) -> str:
    await bench.prepare()
    words = WordSource(random.Random(1))
    rows = []
    with bench.run_workers("agents", places=4) as [worker]:
        await bench.wait_workers("agents")
        await bench.wait_ended(await bench.upload("warm-up.md", b"Warm-up."))
        documents = {"book.pdf": make_pdf([words.make_text(WORDS_PER_PAGE) for _ in range(PAGES)])}
        rows.append(await _read_documents(bench, worker, f"a PDF of {PAGES:,} pages", documents))
        documents = {f"{n}.md": words.make_text(WORDS_PER_PAGE).encode() for n in range(FILES)}
        rows.append(await _read_documents(bench, worker, f"{FILES} Markdown files of a page", documents))
    return format_table("Reading documents into a collection", rows)


async def _read_documents(
    bench: KnowledgeBench, worker: psutil.Process, name: str, documents: dict[str, bytes]
) -> ReportRow:
    print_progress(f"reading {name}")
    bench.running.forget_peak()
    before, chunks = _count_cpu(bench, worker), await bench.count_chunks()
    peak = MemoryPeak(worker)
    watching = asyncio.create_task(peak.watch())
    began = time.perf_counter()
    run_ids = [await bench.upload(file, content) for file, content in documents.items()]
    for run_id in run_ids:
        await bench.wait_ended(run_id)
    took_s = time.perf_counter() - began
    watching.cancel()
    after, chunks = _count_cpu(bench, worker), await bench.count_chunks() - chunks
    return ReportRow(
        name,
        {
            "seconds": took_s,
            "chunks": chunks,
            "chunks/s": chunks / took_s,
            "CPU s, frontend": after[0] - before[0],
            "CPU s, worker": after[1] - before[1],
            "peak MiB, frontend": bench.running.frontend_peak_mib(),
            "peak MiB, reader": peak.mib,
        },
    )


def _count_cpu(bench: AgentBench, worker: psutil.Process) -> tuple[float, float]:
    """Return the CPU seconds of the frontend, and of the worker with its runner. A process that reads a document counts
    for the runner once it has ended."""
    used = 0.0
    for process in [worker, *worker.children(recursive=True)]:
        times = process.cpu_times()
        used += times.user + times.system + times.children_user + times.children_system
    return bench.running.frontend_cpu_s(), used


class MemoryPeak:
    """Measures the largest process that reads a document, by looking often."""

    def __init__(self, worker: psutil.Process) -> None:
        self._worker = worker
        self.mib = 0.0

    async def watch(self) -> None:
        while True:
            for process in self._worker.children(recursive=True):
                try:
                    if "corral.runner.document_program" in process.cmdline():
                        self.mib = max(self.mib, process.memory_info().rss / 2**20)
                except psutil.Error:
                    continue
            await asyncio.sleep(0.05)


def make_pdf(pages: Sequence[str]) -> bytes:
    """Return a PDF with a page for each text."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode()]
    objects.append(font)
    for number, page in enumerate(pages):
        words = page.split()
        lines = [" ".join(words[start : start + 12]) for start in range(0, len(words), 12)]
        drawn = " ".join(f"({line}) Tj 0 -14 Td" for line in lines)
        stream = f"BT /F1 11 Tf 40 800 Td {drawn} ET".encode()
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> "
            b"/Contents %d 0 R >>" % (5 + 2 * number)
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream))
    written = bytearray(b"%PDF-1.4\n")
    places = []
    for number, content in enumerate(objects, start=1):
        places.append(len(written))
        written += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    start = len(written)
    written += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    written += b"".join(b"%010d 00000 n \n" % place for place in places)
    written += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(written)


# --- searching ---


class WordSource:
    """Makes texts whose words are as frequent as those of a language: the n-th most frequent one in proportion to 1/n.

    The most frequent ones are stop words of English.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        common = ["the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "with", "as", "was", "on", "are"]
        self.words = common + [f"w{rng.randrange(10**9):x}" for _ in range(VOCABULARY - len(common))]
        self._weights = list(accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))

    def make_text(self, count: int) -> str:
        return " ".join(self._rng.choices(self.words, cum_weights=self._weights, k=count))


class VectorSource:
    """Makes vectors around centres, as embeddings of texts are around topics."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._centres = [self._make(1.0) for _ in range(CENTRES)]
        # Cut from one long list of numbers: the times of making them are no part of what is measured.
        self._noise = self._make(0.7, 100_003)

    def _make(self, width: float, count: int = DIMENSION) -> list[float]:
        return [round(self._rng.gauss(0, width), 4) for _ in range(count)]

    def make_vector(self) -> tuple[float, ...]:
        start = self._rng.randrange(len(self._noise) - DIMENSION)
        noise = self._noise[start : start + DIMENSION]
        return tuple(round(a + b, 4) for a, b in zip(self._rng.choice(self._centres), noise, strict=True))


async def _measure_search(database: Database) -> str:
    rng = random.Random(2)
    words, vectors = WordSource(rng), VectorSource(rng)
    collection_id, took_s = await _fill(database, words, vectors)
    sizes = await _read_sizes(database)
    queries = [
        SearchQuery(text=words.make_text(8), embedding=vectors.make_vector(), results=RESULTS) for _ in range(QUERIES)
    ]
    meaning = [SearchQuery(text="", embedding=query.embedding, results=RESULTS) for query in queries]
    print_progress("searching")
    exact = await _search_all(database, collection_id, meaning, uses_index=False)
    rows = [
        await _measure_queries("HNSW, as the product searches", database, collection_id, meaning, exact),
        await _measure_ivf(database, meaning, exact),
        ReportRow("all chunks", {"p50 ms": exact.p50_ms, "p95 ms": exact.p95_ms, "recall %": 100.0}),
    ]
    by_words = await _search_all(database, collection_id, queries, uses_index=True)
    both = await _search_all(database, collection_id, queries, uses_index=False)
    hybrid = [
        ReportRow("HNSW and words", {"p50 ms": by_words.p50_ms, "p95 ms": by_words.p95_ms}),
        ReportRow("all chunks and words", {"p50 ms": both.p50_ms, "p95 ms": both.p95_ms}),
    ]
    filled = ReportRow(
        f"{CHUNKS:,} chunks, {DIMENSION} numbers each",
        {"seconds": took_s, "chunks/s": CHUNKS / took_s, **sizes},
    )
    return "\n".join(
        (
            format_table("Storing chunks with their indexes", [filled]),
            format_table(f"Search by meaning among {CHUNKS:,} chunks, {RESULTS} results", rows, ratio_of=("p50 ms",)),
            format_table(f"Search by meaning and words among {CHUNKS:,} chunks", hybrid, ratio_of=("p50 ms",)),
        )
    )


async def _fill(database: Database, words: WordSource, vectors: VectorSource) -> tuple[str, float]:
    """Store the chunks of one entry after another as workers do; return the collection, and the seconds of storing."""
    async with database.transaction() as tx:
        # That of the collection which was made through the API.
        owner = parse_owner((await tx.execute(text("SELECT owner FROM collections LIMIT 1"))).scalar_one())
        new = NewCollection(
            id=_ids.new_id(), owner=owner, name="large", embedding_model="bench", chunk_size=400, chunk_overlap=0
        )
        await store.insert_collection(tx, new)
        await chunk_store.create_index(tx, DIMENSION)
    took_s, per_entry = 0.0, 1000
    for number in range(CHUNKS // per_entry):
        entry_id = await _put_entry(database, new.id, f"{number}.md")
        target = ChunkTarget(collection_id=new.id, entry_id=entry_id, version=1, language="english")
        for first in range(0, per_entry, PER_INSERT):
            chunks = [
                NewChunk(number=n, content=words.make_text(WORDS_PER_CHUNK), embedding=vectors.make_vector())
                for n in range(first, min(first + PER_INSERT, per_entry))
            ]
            began = time.perf_counter()
            async with database.transaction() as tx:
                await chunk_store.insert_chunks(tx, target, chunks)
            took_s += time.perf_counter() - began
        async with database.transaction() as tx:
            values = {"state": "ready", "ready_version": 1, "language": "english", "chunks": per_entry}
            await store.update_entry(tx, entry_id, values)
        if number % 10 == 9:
            print_progress(f"{(number + 1) * per_entry:,} chunks are stored, {took_s:.0f} s")
    async with database.engine.connect() as connection:
        plain = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await plain.execute(text("ANALYZE collection_chunks"))
    return new.id, took_s


async def _put_entry(database: Database, collection_id: str, name: str) -> str:
    entry_id = _ids.new_id()
    statement = text("""
        INSERT INTO collection_entries (id, collection_id, name, size_bytes, sha256, key_id, owner_name)
        VALUES (CAST(:id AS uuid), CAST(:collection AS uuid), :name, 1, '', 'bench', 'bench')
    """)
    async with database.transaction() as tx:
        await tx.execute(statement, {"id": entry_id, "collection": collection_id, "name": name})
    return entry_id


async def _read_sizes(database: Database) -> dict[str, float]:
    names = {
        "MiB, table": "pg_table_size('collection_chunks')",
        "MiB, vector index": f"pg_relation_size('collection_chunks_hnsw_{DIMENSION}_idx')",
        "MiB, word index": "pg_relation_size('collection_chunks_words_idx')",
    }
    async with database.transaction() as tx:
        row = (await tx.execute(text(f"SELECT {', '.join(names.values())}"))).one()
    return {name: value / 2**20 for name, value in zip(names, row, strict=True)}


class SearchTimes:
    """Holds what some searches found, and how long each took."""

    def __init__(self, found: Sequence[set[str]], times_ms: Sequence[float]) -> None:
        self.found = found
        self.p50_ms = statistics.median(times_ms)
        self.p95_ms = sorted(times_ms)[math.ceil(len(times_ms) * 0.95) - 1]

    def compare(self, exact: SearchTimes) -> float:
        """Return the recall in percent."""
        shares = [len(mine & theirs) / len(theirs) for mine, theirs in zip(self.found, exact.found, strict=True)]
        return 100 * statistics.mean(shares)


async def _search_all(
    database: Database, collection_id: str, queries: Sequence[SearchQuery], *, uses_index: bool
) -> SearchTimes:
    async def search(query: SearchQuery) -> set[str]:
        async with database.transaction() as tx:
            found = await chunk_store.search_chunks(tx, collection_id, query, uses_index=uses_index)
        return {one.id for one in found}

    return await _time(search, queries)


async def _time(search: Callable[[SearchQuery], Any], queries: Sequence[SearchQuery]) -> SearchTimes:
    # The first searches read the index into memory.
    for query in queries[:10]:
        await search(query)
    found, times = [], []
    for query in queries:
        began = time.perf_counter()
        found.append(await search(query))
        times.append((time.perf_counter() - began) * 1000)
    return SearchTimes(found, times)


async def _measure_queries(
    name: str, database: Database, collection_id: str, queries: Sequence[SearchQuery], exact: SearchTimes
) -> ReportRow:
    found = await _search_all(database, collection_id, queries, uses_index=True)
    return ReportRow(name, {"p50 ms": found.p50_ms, "p95 ms": found.p95_ms, "recall %": found.compare(exact)})


async def _measure_ivf(database: Database, queries: Sequence[SearchQuery], exact: SearchTimes) -> ReportRow:
    """Measure the other index of pgvector on a copy of the vectors."""
    print_progress("building an IVFFlat index")
    began = time.perf_counter()
    async with database.engine.connect() as connection:
        plain = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await plain.execute(text("SET statement_timeout = 0"))
        copied = f"SELECT entry_id, number, embedding\\:\\:vector({DIMENSION}) AS embedding FROM collection_chunks"
        await plain.execute(text(f"CREATE UNLOGGED TABLE ivf AS {copied} WHERE dimension = {DIMENSION}"))
        began = time.perf_counter()
        await plain.execute(
            text(f"CREATE INDEX ON ivf USING ivfflat (embedding vector_cosine_ops) WITH (lists = {IVF_LISTS})")
        )
        built_s = time.perf_counter() - began
        await plain.execute(text("RESET statement_timeout"))
    nearest = text("""
        SELECT entry_id, number FROM ivf ORDER BY embedding <=> CAST(:vector AS vector) LIMIT :results
    """)

    async def search(query: SearchQuery) -> set[str]:
        vector = f"[{','.join(map(repr, query.embedding))}]"
        async with database.transaction() as tx:
            await tx.execute(text(f"SET LOCAL ivfflat.probes = {IVF_PROBES}"))
            rows = await tx.execute(nearest, {"vector": vector, "results": RESULTS})
            return {f"{row.entry_id}:{row.number}" for row in rows}

    found = await _time(search, queries)
    print_progress(f"the IVFFlat index was built in {built_s:.0f} s")
    return ReportRow(
        f"IVFFlat, {IVF_LISTS} lists, {IVF_PROBES} probes",
        {"p50 ms": found.p50_ms, "p95 ms": found.p95_ms, "recall %": found.compare(exact)},
    )
