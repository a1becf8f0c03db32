"""Stores chunks of documents with their embeddings, and searches them, with the extension `vector` of PostgreSQL.

The table is made where the extension is, and not by a migration: a server without it serves everything else. An
embedding has any length; each length up to `INDEXED_DIMENSIONS_MAX` has an approximate index of its own. A search
compares all chunks of a small collection, and uses the index for a large one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from corral.domain.collection import FoundChunk, SearchQuery
from corral.store.database import Transaction

# What an index of the extension takes; longer embeddings are compared one by one.
INDEXED_DIMENSIONS_MAX = 2000
# The most that the extension stores.
DIMENSIONS_MAX = 16_000
# Up to here a search compares all chunks, which takes tens of milliseconds and misses none.
EXACT_CHUNKS_MAX = 20_000
# The index of a length is searched until enough chunks of the collection are found, and looks at so many at least.
_INDEX_BREADTH = 200
# In the sum of reciprocal ranks: how little the first ranks differ. 60 is the value of the method's authors.
_RANK_OFFSET = 60
# Each search contributes so many for each result of the whole.
_CANDIDATES_PER_RESULT = 4
_CANDIDATES_MIN = 20
# A word is common if more than this share of all chunks have it, by PostgreSQL's statistics.
_COMMON_SHARE = 0.05
# Of a query, in the search for words: longer texts are whole documents.
_QUERY_CHARS_MAX = 2000
# The text search configuration that takes words as they are.
PLAIN_LANGUAGE = "simple"
# A text is in a language if this share of its words, and so many, are stop words of it. In prose it is a third.
_STOP_WORDS_SHARE_MIN = 0.1
_STOP_WORDS_MIN = 3
# Some six hundred words; each is looked up in the list of each language.
_SAMPLE_CHARS_MAX = 4000
_LOCK = 0x636F7272616D

_CREATE_TABLE = (
    """
    CREATE TABLE IF NOT EXISTS collection_chunks (
        entry_id uuid NOT NULL REFERENCES collection_entries (id) ON DELETE CASCADE,
        version integer NOT NULL,
        number integer NOT NULL,
        collection_id uuid NOT NULL,
        content text NOT NULL,
        language text NOT NULL,
        words tsvector,
        dimension integer NOT NULL,
        embedding vector NOT NULL,
        CONSTRAINT collection_chunks_pkey PRIMARY KEY (entry_id, version, number)
    )
    """,
    "CREATE INDEX IF NOT EXISTS collection_chunks_collection_id_idx ON collection_chunks (collection_id)",
    "CREATE INDEX IF NOT EXISTS collection_chunks_words_idx ON collection_chunks USING gin (words)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSupport:
    """Says whether this PostgreSQL server has the extension `vector`, and the table of chunks."""

    has_table: bool
    is_installed: bool
    is_available: bool
    # Whether this role may install the extension.
    may_install: bool


async def read_support(tx: Transaction) -> VectorSupport:
    statement = text("""
        SELECT to_regclass('collection_chunks') IS NOT NULL AS has_table,
               EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') AS is_installed,
               EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') AS is_available,
               (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS may_install
    """)
    row = (await tx.execute(statement)).one()
    return VectorSupport(
        has_table=row.has_table,
        is_installed=row.is_installed,
        is_available=row.is_available,
        may_install=bool(row.may_install),
    )


async def create_table(tx: Transaction, *, installs: bool) -> None:
    """Make the table of chunks, and install the extension before that with `installs`. Frontends that do this at the
    same time wait for each other."""
    await tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    if installs:
        await tx.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
    for statement in _CREATE_TABLE:
        await tx.execute(text(statement))


async def create_index(tx: Transaction, dimension: int) -> None:
    """Make the index for embeddings of this length. No-op if it exists, or if the length cannot be indexed."""
    if not 0 < dimension <= INDEXED_DIMENSIONS_MAX:
        return
    name = f"collection_chunks_hnsw_{dimension:d}_idx"
    if (await tx.execute(text("SELECT to_regclass(:name)"), {"name": name})).scalar() is not None:
        return
    await tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    await tx.execute(
        text(
            f"CREATE INDEX IF NOT EXISTS {name} ON collection_chunks"
            f" USING hnsw ((embedding::vector({dimension:d})) vector_cosine_ops) WHERE dimension = {dimension:d}"
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """Values with which a chunk of a document is inserted into PostgreSQL."""

    number: int
    content: str
    embedding: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTarget:
    """Names where chunks are stored: the collection, the entry, and the version of it that is being read."""

    collection_id: str
    entry_id: str
    version: int
    # The text search configuration by which their words are stemmed.
    language: str


_INSERT = text("""
    INSERT INTO collection_chunks (entry_id, version, number, collection_id, content, language, words, dimension,
           embedding)
    SELECT CAST(:entry AS uuid), :version, n, CAST(:collection AS uuid), c, CAST(:language AS text),
           to_tsvector(CAST(CAST(:language AS text) AS regconfig), c), :dimension, CAST(v AS vector)
      FROM unnest(CAST(:numbers AS integer[]), CAST(:contents AS text[]), CAST(:vectors AS text[])) AS piece (n, c, v)
    ON CONFLICT (entry_id, version, number) DO NOTHING
""")


async def insert_chunks(tx: Transaction, target: ChunkTarget, chunks: Sequence[NewChunk]) -> None:
    """Store chunks. Those that are stored already stay as they are."""
    if not chunks:
        return
    values = {
        "entry": target.entry_id,
        "version": target.version,
        "collection": target.collection_id,
        "language": target.language,
        "dimension": len(chunks[0].embedding),
        "numbers": [chunk.number for chunk in chunks],
        "contents": [chunk.content for chunk in chunks],
        "vectors": [_render_vector(chunk.embedding) for chunk in chunks],
    }
    await tx.execute(_INSERT, values)


# How many words of a text each language with a stemmer calls stop words, such as "the" and "and".
_COUNT_STOP_WORDS = text("""
    WITH tokens AS MATERIALIZED (
        SELECT lower(token) AS token FROM ts_parse('default', :sample) WHERE tokid IN (1, 2)
    )
    SELECT c.cfgname AS language, count(*) AS tokens,
           count(*) FILTER (WHERE ts_lexize(CAST(d.oid AS regdictionary), tokens.token) = '{}') AS stops
      FROM tokens, pg_ts_dict d
      JOIN pg_ts_config c ON c.cfgname || '_stem' = d.dictname AND c.cfgnamespace = d.dictnamespace
     WHERE d.dictnamespace = CAST('pg_catalog' AS regnamespace) AND d.dictinitoption LIKE '%stopwords%'
     GROUP BY c.cfgname ORDER BY stops DESC, c.cfgname LIMIT 2
""")


async def find_language(tx: Transaction, sample: str) -> str:
    """Return the text search configuration of the language that a text is in, by its stop words; `simple`, which
    matches whole words, if no language has enough of them, or two have as many."""
    rows = (await tx.execute(_COUNT_STOP_WORDS, {"sample": sample[:_SAMPLE_CHARS_MAX]})).all()
    if not rows or rows[0].stops < max(_STOP_WORDS_MIN, rows[0].tokens * _STOP_WORDS_SHARE_MIN):
        return PLAIN_LANGUAGE
    is_tie = len(rows) > 1 and rows[1].stops == rows[0].stops
    return PLAIN_LANGUAGE if is_tie else str(rows[0].language)


async def has_language(tx: Transaction, name: str) -> bool:
    """Return whether PostgreSQL has a text search configuration of this name."""
    statement = text("SELECT 1 FROM pg_ts_config WHERE cfgname = :name AND pg_ts_config_is_visible(oid)")
    return (await tx.execute(statement, {"name": name})).first() is not None


async def list_languages(tx: Transaction) -> list[str]:
    statement = text("SELECT cfgname FROM pg_ts_config WHERE pg_ts_config_is_visible(oid) ORDER BY cfgname")
    return [row.cfgname for row in await tx.execute(statement)]


async def read_language(tx: Transaction, entry_id: str, version: int) -> str | None:
    """Return the text search configuration of a version that is being read; None before its first chunk."""
    statement = text("""
        SELECT language FROM collection_chunks
         WHERE entry_id = CAST(:entry AS uuid) AND version = :version ORDER BY number LIMIT 1
    """)
    found: str | None = (await tx.execute(statement, {"entry": entry_id, "version": version})).scalar_one_or_none()
    return found


async def count_chunks(tx: Transaction, entry_id: str, version: int) -> int:
    """Return how many chunks of a version are stored. They are stored in their order, so this is the next number."""
    statement = text(
        "SELECT count(*) FROM collection_chunks WHERE entry_id = CAST(:entry AS uuid) AND version = :version"
    )
    return int((await tx.execute(statement, {"entry": entry_id, "version": version})).scalar_one())


async def delete_other_versions(tx: Transaction, entry_id: str, version: int) -> None:
    statement = text("DELETE FROM collection_chunks WHERE entry_id = CAST(:entry AS uuid) AND version <> :version")
    await tx.execute(statement, {"entry": entry_id, "version": version})


async def list_contents(tx: Transaction, entry_id: str, version: int, start: int, limit: int) -> list[str]:
    """Return the texts of an entry's chunks from a number on."""
    statement = text("""
        SELECT content FROM collection_chunks
         WHERE entry_id = CAST(:entry AS uuid) AND version = :version AND number >= :start
         ORDER BY number LIMIT :limit
    """)
    values = {"entry": entry_id, "version": version, "start": start, "limit": limit}
    return [row.content for row in await tx.execute(statement, values)]


# A chunk counts if it is of the version of its entry that is ready. Words that many chunks have are left out of a query
# that has others: they say little, and each chunk with one of them would be ranked.
_SEARCH = """
    WITH near AS MATERIALIZED (
        SELECT c.entry_id, c.number, {distance} AS distance
          FROM collection_chunks c
         WHERE {filter} c.collection_id = CAST(:collection AS uuid) AND EXISTS (
               SELECT FROM collection_entries e WHERE e.id = c.entry_id AND e.ready_version = c.version)
         ORDER BY {distance} LIMIT :candidates
    ), common AS MATERIALIZED (
        SELECT m.lexeme FROM pg_stats,
               unnest(CAST(CAST(most_common_elems AS text) AS text[]), most_common_elem_freqs) AS m (lexeme, share)
         WHERE schemaname = current_schema() AND tablename = 'collection_chunks' AND attname = 'words'
           AND m.lexeme IS NOT NULL AND m.share > {common_share}
    ), asking AS (
        SELECT used.language, w.lexeme, w.lexeme IN (SELECT lexeme FROM common) AS is_common
          FROM (SELECT DISTINCT language FROM collection_entries
                 WHERE collection_id = CAST(:collection AS uuid) AND ready_version IS NOT NULL) used,
               unnest(tsvector_to_array(to_tsvector(CAST(used.language AS regconfig), :words))) AS w (lexeme)
    ), question AS (
        SELECT language, CAST(string_agg(quoted, ' | ') AS tsquery) AS words
          FROM (SELECT language, is_common, chr(39) || replace(replace(
                       lexeme, chr(92), repeat(chr(92), 2)), chr(39), repeat(chr(39), 2)) || chr(39) AS quoted
                  FROM asking) one
         WHERE NOT is_common OR NOT EXISTS (
               SELECT FROM asking rare WHERE rare.language = one.language AND NOT rare.is_common)
         GROUP BY language
    ), worded AS MATERIALIZED (
        SELECT c.entry_id, c.number, c.version, ts_rank_cd(c.words, question.words, 1) AS rank
          FROM question, collection_chunks c
         WHERE c.collection_id = CAST(:collection AS uuid) AND c.language = question.language
           AND c.words @@ question.words AND EXISTS (
               SELECT FROM collection_entries e WHERE e.id = c.entry_id AND e.ready_version = c.version)
         ORDER BY rank DESC, c.entry_id, c.number LIMIT :candidates
    ), ranked AS (
        SELECT entry_id, number, 1.0 / ({offset} + row_number() OVER (ORDER BY distance, entry_id, number)) AS score
          FROM near
        UNION ALL
        SELECT entry_id, number, 1.0 / ({offset} + row_number() OVER (ORDER BY rank DESC, entry_id, number))
          FROM worded
    ), summed AS (
        SELECT entry_id, number, sum(score) AS score FROM ranked GROUP BY entry_id, number
    )
    SELECT e.id AS entry_id, e.name, c.number, c.content, CAST(s.score AS double precision) AS score, o.url,
           1 - (c.embedding <=> CAST(:vector AS vector)) AS similarity
      FROM summed s
      JOIN collection_entries e ON e.id = s.entry_id
      JOIN collection_chunks c ON c.entry_id = s.entry_id AND c.version = e.ready_version AND c.number = s.number
      LEFT JOIN collection_sources o ON o.id = e.source_id
     ORDER BY s.score DESC, similarity DESC, e.id, c.number
     LIMIT :results
"""


async def search_chunks(
    tx: Transaction, collection_id: str, query: SearchQuery, *, uses_index: bool = False
) -> list[FoundChunk]:
    """Return the chunks of a collection that are nearest to the query, in meaning and in words, best first.

    `uses_index`: look at the nearest neighbours in the index only, and not at all chunks."""
    dimension = len(query.embedding)
    candidates = max(_CANDIDATES_MIN, query.results * _CANDIDATES_PER_RESULT)
    if uses_index and dimension <= INDEXED_DIMENSIONS_MAX:
        for setting in (
            f"hnsw.ef_search = {max(_INDEX_BREADTH, candidates)}",
            "hnsw.iterative_scan = strict_order",
            # The planner knows neither how large a collection is nor what a distance costs.
            "enable_sort = off",
        ):
            await tx.execute(text(f"SET LOCAL {setting}"))
        distance = f"c.embedding::vector({dimension:d}) <=> CAST(:vector AS vector({dimension:d}))"
        narrowed = f"c.dimension = {dimension:d} AND"
    else:
        distance, narrowed = "c.embedding <=> CAST(:vector AS vector)", ""
    statement = _SEARCH.format(distance=distance, filter=narrowed, offset=_RANK_OFFSET, common_share=_COMMON_SHARE)
    # `::` would be read as a parameter.
    statement = statement.replace("::vector", "\\:\\:vector")
    values = {
        "collection": collection_id,
        "vector": _render_vector(query.embedding),
        "words": query.text[:_QUERY_CHARS_MAX],
        "candidates": candidates,
        "results": query.results,
    }
    return [_to_found(row) for row in await tx.execute(text(statement), values)]


def _to_found(row: Any) -> FoundChunk:
    # The distance to an embedding of zeros is no number.
    similarity = 0.0 if row.similarity is None or math.isnan(row.similarity) else float(row.similarity)
    return FoundChunk(
        entry_id=str(row.entry_id),
        entry_name=row.name,
        number=row.number,
        text=row.content,
        similarity=similarity,
        score=row.score,
        source_url=row.url or "",
    )


def _render_vector(values: Sequence[float]) -> str:
    return f"[{','.join(map(repr, values))}]"
