"""Queries of usage: sums by any column, as JSON and CSV, for admins and for the holder of a key."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corral.adapters.system import SystemClock
from corral.domain.usage import HOUR_S, UsageBuckets, UsageGrouping, UsageQuery, UsageSums
from corral.metering import usage_report as reporting
from corral.store import usage as store
from corral.store.database import Database
from tests.api.operations import assert_envelope
from tests.api.test_authentication import make_key
from tests.metering.scene import HOUR, answered, sums_of
from tests.support.frontends import RunningFrontend

BEGIN = datetime.fromtimestamp(HOUR * HOUR_S, UTC)


async def _count(database: Database, buckets: UsageBuckets, batch: int = 1) -> None:
    async with database.transaction() as tx:
        assert await store.add_batch(tx, "spool", batch, buckets)


def _buckets() -> UsageBuckets:
    """Two keys, two models, three hours on two days: one request in the first, two in the second, and so on."""
    places = [
        (HOUR + hour, key, model, "chat", f"on-{model}")
        for hour in (0, 1, 24)
        for key in ("a", "b")
        for model in ("m", "n")
    ]
    return {place: sums_of(number) for number, place in enumerate(places, start=1)}


async def _rows(database: Database, *by: UsageGrouping, **question: Any) -> dict[tuple[Any, ...], int]:
    """Return the number of requests by the values of the grouping columns."""
    names = {
        UsageGrouping.KEY: "key_id",
        UsageGrouping.USER: "user_name",
        UsageGrouping.DAY: "at",
        UsageGrouping.HOUR: "at",
    }
    query = UsageQuery(since=BEGIN, by=by, **question)
    found = await reporting.make_report(database, query)
    return {tuple(getattr(row, names.get(one, one)) for one in by): row.sums.requests for row in found.rows}


@pytest.mark.behaviour("GW-168")
async def test_usage_is_summed_by_every_requested_dimension(database: Database) -> None:
    await _count(database, _buckets())
    assert await _rows(database, UsageGrouping.KEY) == {("a",): 1 + 2 + 5 + 6 + 9 + 10, ("b",): 3 + 4 + 7 + 8 + 11 + 12}
    assert await _rows(database, UsageGrouping.MODEL, UsageGrouping.KEY) == {
        ("m", "a"): 1 + 5 + 9,
        ("m", "b"): 3 + 7 + 11,
        ("n", "a"): 2 + 6 + 10,
        ("n", "b"): 4 + 8 + 12,
    }
    first_day = BEGIN.replace(hour=0)
    assert await _rows(database, UsageGrouping.DAY) == {(first_day,): 36, (first_day + timedelta(days=1),): 42}
    assert await _rows(database, UsageGrouping.HOUR, key_id="a") == {
        (BEGIN,): 3,
        (BEGIN + timedelta(hours=1),): 11,
        (BEGIN + timedelta(hours=24),): 19,
    }
    assert await _rows(database, UsageGrouping.USER, UsageGrouping.CALL) == {("", "chat"): 78}
    on_m = 1 + 3 + 5 + 7 + 9 + 11
    assert await _rows(database, UsageGrouping.NODE) == {("on-m",): on_m, ("on-n",): 78 - on_m}
    assert await _rows(database, UsageGrouping.NODE, UsageGrouping.DAY) == {
        ("on-m", first_day): 1 + 3 + 5 + 7,
        ("on-m", first_day + timedelta(days=1)): 9 + 11,
        ("on-n", first_day): 2 + 4 + 6 + 8,
        ("on-n", first_day + timedelta(days=1)): 10 + 12,
    }


@pytest.mark.behaviour("GW-168")
async def test_time_counts_from_its_hour_and_until_before_its_hour(database: Database) -> None:
    await _count(database, _buckets())
    half = timedelta(minutes=30)
    spans = {
        (BEGIN + half, None): 78,
        (BEGIN + half, BEGIN + half): 0,
        (BEGIN, BEGIN + timedelta(hours=1)): 10,
        (BEGIN + timedelta(hours=1), None): 68,
        (BEGIN + timedelta(hours=2), BEGIN + timedelta(hours=24)): 0,
    }
    for (since, until), requests in spans.items():
        found = await reporting.make_report(database, UsageQuery(since=since, until=until))
        assert found.total.requests == requests, (since, until)
        assert found.rows == []


@pytest.mark.behaviour("GW-168")
async def test_pages_tell_every_row_once_and_in_order(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await _count(database, _buckets())
    question = UsageQuery(since=BEGIN, by=(UsageGrouping.NODE, UsageGrouping.HOUR, UsageGrouping.KEY))
    whole = (await reporting.make_report(database, question)).rows
    assert len(whole) == 12
    for size in (1, 3, 4, 5, 12, 13):
        monkeypatch.setattr(reporting, "PAGE_ROWS", size)
        assert [row async for page in reporting.iter_pages(database, question) for row in page] == whole
    cut = await reporting.make_report(database, question, limit=5)
    assert (cut.rows, cut.is_cut, cut.total) == (whole[:5], True, sums_of(78))


async def test_old_usage_is_forgotten(database: Database) -> None:
    now = int(SystemClock().wall().timestamp()) // HOUR_S
    await _count(database, {(hour, "a", "m", "chat", "n"): sums_of(1) for hour in (now, now - 24 * 10)})
    async with database.transaction() as tx:
        assert await store.prune(tx, 9 * 24 * 3600.0) == 1
        assert await store.prune(tx, 9 * 24 * 3600.0) == 0
        left = await store.read_total(tx, UsageQuery(since=BEGIN))
    assert left == sums_of(1)
    # Its number is not forgotten with it.
    async with database.transaction() as tx:
        assert not await store.add_batch(tx, "spool", 1, {})


async def _used(frontend: RunningFrontend, **changes: Any) -> None:
    now = SystemClock().wall().timestamp()
    frontend.core.usage_shipper.spool.on_requests_ended(answered(**{"began_at": now} | changes))


@pytest.mark.behaviour("GW-169")
async def test_operator_sees_all_usage_and_other_keys_only_their_own(frontend: RunningFrontend) -> None:
    one, other = [await make_key(frontend, name=name, scope="infer") for name in ("one", "other")]
    await _used(frontend, key_id=one["id"])
    await _used(frontend, key_id=one["id"], status=500)
    await _used(frontend, key_id=other["id"], model="n", is_estimated=True)
    await frontend.core.usage_shipper.tick()
    status, usage = await frontend.call("GET", "/api/usage?by=key")
    assert status == 200
    assert usage["total"] == {
        "requests": 3,
        "errors": 1,
        "prompt_tokens": 30,
        "cached_tokens": 12,
        "completion_tokens": 15,
        "estimated_tokens": 5,
    }
    assert {row["key"]: (row["key_id"], row["requests"], row["user"]) for row in usage["rows"]} == {
        "one": (one["id"], 2, ""),
        "other": (other["id"], 1, ""),
    }
    status, mine = await frontend.call("GET", "/api/me/usage", key=one["key"])
    assert status == 200
    assert [(row["model"], row["requests"]) for row in mine["rows"]] == [("llama", 2)]
    status, _ = await frontend.call("GET", "/api/usage", key=one["key"])
    assert status == 403


@pytest.mark.behaviour("GW-169")
async def test_usage_as_csv_has_every_row_and_no_formulas(
    frontend: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "PAGE_ROWS", 2)
    made = await make_key(frontend, name='=HYPERLINK("x")', scope="infer")
    for model in ("a", "b", 'c "quoted", and parted', "d"):
        await _used(frontend, model=model, key_id=made["id"])
    await frontend.core.usage_shipper.tick()
    status, text = await frontend.call("GET", "/api/usage?by=key,model,day&format=csv")
    assert status == 200
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["model"] for row in rows] == ["a", "b", 'c "quoted", and parted', "d"]
    assert {row["key"] for row in rows} == {'\'=HYPERLINK("x")'}
    assert {row["requests"] for row in rows} == {"1"}
    today = SystemClock().wall().date().isoformat()
    assert rows[0]["at"] == f"{today}T00:00:00+00:00"
    assert list(rows[0]) == ["key_id", "key", "user", "model", "at", *UsageSums.__dataclass_fields__]


@pytest.mark.behaviour("GW-168")
async def test_usage_is_grouped_by_node_name_also_for_the_holder_of_a_key(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, name="one", scope="infer")
    for node in ("gpu-a", "gpu-a", "gpu-b"):
        await _used(frontend, key_id=made["id"], node_name=node)
    await _used(frontend, key_id=made["id"], node_name="", replica_id="", status=503)
    await frontend.core.usage_shipper.tick()
    _, usage = await frontend.call("GET", "/api/usage?by=node,day")
    assert [(row["node"], row["requests"]) for row in usage["rows"]] == [("", 1), ("gpu-a", 2), ("gpu-b", 1)]
    _, text = await frontend.call("GET", "/api/me/usage?by=node&format=csv", key=made["key"])
    assert [(row["node"], row["errors"]) for row in csv.DictReader(io.StringIO(text))] == [
        ("", "1"),
        ("gpu-a", "0"),
        ("gpu-b", "0"),
    ]


async def test_key_says_when_it_was_last_used(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, name="one", scope="infer")
    assert made["last_used_at"] is None
    await _used(frontend, key_id=made["id"])
    await frontend.core.usage_shipper.tick()
    _, shown = await frontend.call("GET", f"/api/keys/{made['id']}")
    assert datetime.fromisoformat(shown["last_used_at"]) >= datetime.fromisoformat(made["created_at"])
    _, listed = await frontend.call("GET", "/api/keys")
    assert [key["last_used_at"] for key in listed if key["id"] == made["id"]] == [shown["last_used_at"]]


@pytest.mark.behaviour("GW-169")
async def test_usage_as_csv_without_rows_is_its_head(frontend: RunningFrontend) -> None:
    status, text = await frontend.call("GET", "/api/me/usage?format=csv&by=model")
    assert (status, text.splitlines()) == (200, [",".join(["model", *UsageSums.__dataclass_fields__])])


@pytest.mark.behaviour("GW-169")
@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("by=moon", "Usage cannot be grouped by 'moon'"),
        ("by=day,hour", "by day or by hour"),
        ("from=2026-11-02&to=2026-11-01", "begins after it ends"),
        ("from=0001-01-01T00:00:00%2B14:00", "outside of the range"),
        ("from=yesterday", "from"),
        ("format=xml", "format"),
    ],
)
async def test_question_that_makes_no_sense_is_refused(frontend: RunningFrontend, query: str, sentence: str) -> None:
    status, answer = await frontend.call("GET", f"/api/usage?{query}")
    assert status == 400
    assert_envelope(answer)
    assert sentence in answer["error"]["message"]


@pytest.mark.behaviour("GW-169")
@pytest.mark.parametrize("form", ["json", "csv"])
async def test_usage_is_503_while_postgresql_is_away(
    frontend: RunningFrontend, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Database("postgresql://postgres@127.0.0.1:1/nothing")
    monkeypatch.setattr(frontend.core.api_deps, "database", away)
    status, answer = await frontend.call("GET", f"/api/usage?format={form}")
    assert status == 503
    assert_envelope(answer)
    await away.close()


async def test_metrics_show_the_usage_that_waits_for_postgresql(frontend: RunningFrontend) -> None:
    await frontend.core.loops["usage"].stop()
    for _ in range(3):
        await _used(frontend)
    assert await _waiting(frontend) == 3
    await frontend.core.usage_shipper.tick()
    assert await _waiting(frontend) == 0


async def _waiting(frontend: RunningFrontend) -> float:
    _, text = await frontend.call("GET", "/metrics")
    (line,) = [line for line in text.splitlines() if line.startswith("corral_usage_spool_lines ")]
    return float(line.split()[1])
