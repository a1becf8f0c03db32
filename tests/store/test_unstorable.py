"""Values that PostgreSQL refuses, however they got there: the fault of a request and no bug."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from corral.domain.errors import InvalidRequest
from corral.store.database import Database


@pytest.mark.behaviour("API-40")
@pytest.mark.parametrize(
    "value",
    [r'{"a": "\ud800"}', r'{"a": "\u0000"}', '{"a": NaN}', '{"a": Infinity}'],
    ids=["half a character", "NUL", "NaN", "infinite"],
)
async def test_json_that_postgresql_refuses_is_an_invalid_request(database_url: str, value: str) -> None:
    database = Database(database_url)
    try:
        with pytest.raises(InvalidRequest) as caught:
            async with database.transaction() as tx:
                await tx.execute(text("SELECT CAST(:value AS jsonb)"), {"value": value})
    finally:
        await database.close()
    assert caught.value.slug == "bad_text"
