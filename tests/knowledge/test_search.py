"""Search in the registry: by meaning and by words, exactly and by the index, and only what is ready."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from sqlalchemy import text

from corral.domain.access import Owner
from corral.domain.collection import FoundChunk, SearchQuery
from corral.engines.launchers.fake import compute_vector
from corral.store import chunks as store
from corral.store import collections as collection_store
from corral.store.chunks import ChunkTarget, NewChunk
from corral.store.collections import NewCollection
from corral.store.database import Database
from tests.operations.scene import sql
from tests.runs.scene import ids, put_owner

DIMENSION = 64


async def put_collection(database: Database, owner: Owner, name: str = "manuals") -> str:
    collection_id = ids.new_id()
    async with database.transaction() as tx:
        await store.create_table(tx, installs=True)
        new = NewCollection(
            id=collection_id, owner=owner, name=name, embedding_model="m", chunk_size=400, chunk_overlap=0
        )
        await collection_store.insert_collection(tx, new)
    return collection_id


async def put_entry(
    database: Database,
    collection_id: str,
    texts: Sequence[str],
    *,
    name: str = "a.md",
    vectors: Sequence[Sequence[float]] = (),
    ready: int | None = 1,
    language: str = "english",
) -> str:
    entry_id = ids.new_id()
    await sql(
        database,
        "INSERT INTO collection_entries (id, collection_id, name, size_bytes, sha256, key_id, owner_name, state,"
        " ready_version, chunks, language)"
        " VALUES (CAST(:id AS uuid), CAST(:c AS uuid), :name, 1, '', 'k', 'ann', 'ready', :r, 1, :language)",
        id=entry_id,
        c=collection_id,
        name=name,
        r=ready,
        language=language,
    )
    embedded = vectors or [compute_vector(text) for text in texts]
    chunks = [
        NewChunk(number=number, content=text, embedding=vector)
        for number, (text, vector) in enumerate(zip(texts, embedded, strict=True))
    ]
    async with database.transaction() as tx:
        target = ChunkTarget(collection_id=collection_id, entry_id=entry_id, version=1, language=language)
        for start in range(0, len(chunks), 500):
            await store.insert_chunks(tx, target, chunks[start : start + 500])
    return entry_id


async def search(
    database: Database,
    collection_id: str,
    text: str,
    *,
    vector: Sequence[float] = (),
    results: int = 3,
    index: bool = False,
) -> list[FoundChunk]:
    query = SearchQuery(text=text, embedding=tuple(vector or compute_vector(text)), results=results)
    async with database.transaction() as tx:
        return await store.search_chunks(tx, collection_id, query, uses_index=index)


@pytest.mark.behaviour("KNOW-9")
async def test_search_finds_by_meaning_and_by_words_and_labels_results_with_their_file(database: Database) -> None:
    owner = await put_owner(database)
    collection = await put_collection(database, owner)
    texts = ["The pump starts at noon.", "The valve is blue.", "Order part XZ-4711 for the old filters."]
    entry = await put_entry(database, collection, texts)
    near = await search(database, collection, "pump starts noon")
    assert (near[0].text, near[0].entry_name, near[0].id) == (texts[0], "a.md", f"{entry}:0")
    assert near[0].similarity > near[-1].similarity
    # The meaning points elsewhere, but the words of the query stand in one text only, in other forms.
    found = await search(database, collection, "filtering XZ-4711", vector=compute_vector(texts[1]))
    assert {found[0].text, found[1].text} == {texts[1], texts[2]}


@pytest.mark.behaviour("KNOW-9")
async def test_search_sees_only_its_collection_and_versions_that_are_ready(database: Database) -> None:
    owner = await put_owner(database)
    mine, other = await put_collection(database, owner), await put_collection(database, owner, "other")
    await put_entry(database, mine, ["The pump starts at noon."])
    # So many that they would leave no place for the others.
    await put_entry(database, mine, ["The pump starts."] * 100, name="b.md", ready=None)
    await put_entry(database, other, ["The pump starts never."])
    for index in (False, True):
        found = await search(database, mine, "pump starts", index=index)
        assert [one.text for one in found] == ["The pump starts at noon."]


async def test_search_with_signs_of_the_query_language_of_postgresql_is_a_search_for_words(database: Database) -> None:
    collection = await put_collection(database, await put_owner(database))
    await put_entry(database, collection, ["The pump starts at noon."])
    for words in ("pump & !(noon", "':* | pump", "the a of", "", "\\ pump", "café"):
        assert len(await search(database, collection, words, vector=[1.0] * DIMENSION)) == 1


async def test_embedding_of_zeros_is_found_last_and_is_no_error(database: Database) -> None:
    collection = await put_collection(database, await put_owner(database))
    await put_entry(database, collection, ["x", "y"], vectors=[[0.0] * DIMENSION, [1.0] * DIMENSION])
    found = await search(database, collection, "", vector=[1.0] * DIMENSION)
    assert [(one.text, one.similarity) for one in found] == [("y", 1.0), ("x", 0.0)]


@pytest.mark.behaviour("KNOW-10")
async def test_index_is_used_and_finds_what_a_search_of_all_chunks_finds(database: Database) -> None:
    collection = await put_collection(database, await put_owner(database))
    rng = random.Random(7)
    async with database.transaction() as tx:
        await store.create_index(tx, DIMENSION)
        await store.create_index(tx, DIMENSION)
        await store.create_index(tx, store.INDEXED_DIMENSIONS_MAX + 1)
    vectors = [[rng.gauss(0, 1) for _ in range(DIMENSION)] for _ in range(3000)]
    await put_entry(database, collection, [f"text {n}" for n in range(3000)], vectors=vectors)
    assert len(await sql(database, "SELECT 1 FROM pg_indexes WHERE indexname = 'collection_chunks_hnsw_64_idx'")) == 1
    hits, scans = 0, await count_index_scans(database)
    for _ in range(10):
        vector = [rng.gauss(0, 1) for _ in range(DIMENSION)]
        exact = await search(database, collection, "", vector=vector, results=10)
        assert await count_index_scans(database) == scans
        near = await search(database, collection, "", vector=vector, results=10, index=True)
        scans += 1
        assert await count_index_scans(database) == scans
        hits += len({one.id for one in exact} & {one.id for one in near})
    assert hits >= 95


async def count_index_scans(database: Database) -> int:
    """Return how often the index of the embeddings was searched, by all connections that are open."""
    async with database.transaction() as tx:
        await tx.execute(text("SELECT pg_stat_force_next_flush()"))
    query = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'collection_chunks_hnsw_64_idx'"
    [row] = await sql(database, query)
    return int(row.idx_scan)


async def test_tables_are_made_once_by_frontends_that_start_together(database: Database) -> None:
    async with database.transaction() as tx:
        await store.create_table(tx, installs=True)
    async with database.transaction() as tx:
        await store.create_table(tx, installs=True)
        assert (await store.read_support(tx)).has_table


@pytest.mark.behaviour("KNOW-9")
async def test_rare_word_of_a_query_counts_although_another_one_stands_in_many_chunks(database: Database) -> None:
    collection = await put_collection(database, await put_owner(database))
    away, far = [1.0] + [0.0] * (DIMENSION - 1), [0.0] * (DIMENSION - 1) + [1.0]
    texts = ["pump " * 20] * 200 + ["The o'ring\\seal is beside many other parts of it, below the cover."]
    # In meaning it is the nearest, by so little that a place among the words decides.
    vectors = [away] * 200 + [[*away[:-1], 0.1]]
    await put_entry(database, collection, texts, vectors=vectors)
    async with database.engine.connect() as connection:
        plain = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await plain.execute(text("ANALYZE collection_chunks"))
    found = await search(database, collection, "pump o'ring\\seal", vector=far, results=1)
    assert found[0].text == texts[-1]
    # A query of common words alone still finds them.
    assert (await search(database, collection, "pump", vector=far))[0].text == texts[0]


# --- languages ---

ENGLISH = "The pump starts when the valve of the second tank is open, and it stops at noon."
GERMAN = "Die Pumpe läuft, wenn das Ventil des zweiten Tanks offen ist, und sie hält am Mittag an."
FRENCH = "La pompe démarre quand la vanne du deuxième réservoir est ouverte, et elle s'arrête à midi."
RUSSIAN = "Насос запускается, когда клапан второго бака открыт, и он останавливается в полдень, как и всегда."
POLISH = "Pompa uruchamia się, gdy zawór drugiego zbiornika jest otwarty."


@pytest.mark.behaviour("KNOW-23")
@pytest.mark.parametrize(
    ("sample", "language"),
    [
        (ENGLISH, "english"),
        (GERMAN, "german"),
        (FRENCH, "french"),
        (RUSSIAN, "russian"),
        (POLISH, "simple"),
        ("泵在中午启动。", "simple"),
        ("Ann likes tea.", "simple"),
        ("x = 1; y = 2; 4711 ' \\ %s :name", "simple"),
        ("", "simple"),
    ],
)
async def test_language_of_a_text_is_found_by_its_stop_words(database: Database, sample: str, language: str) -> None:
    async with database.transaction() as tx:
        assert await store.find_language(tx, sample) == language


@pytest.mark.behaviour("KNOW-23")
async def test_words_are_found_in_the_language_of_each_document(database: Database) -> None:
    collection = await put_collection(database, await put_owner(database))
    away, far = [[1.0] + [0.0] * (DIMENSION - 1)], [0.0] * (DIMENSION - 1) + [1.0]
    for name, sample, language in (("en", ENGLISH, "english"), ("de", GERMAN, "german"), ("pl", POLISH, "simple")):
        await put_entry(database, collection, [sample], name=name, vectors=away, language=language)

    async def find_by_words(words: str) -> str:
        """Return the name of the first result; all of them have the same meaning."""
        return (await search(database, collection, words, vector=far))[0].entry_name

    # Each word is in another form than in the text.
    assert await find_by_words("starting") == "en"
    assert await find_by_words("Ventile") == "de"
    assert await find_by_words("zawór") == "pl"
