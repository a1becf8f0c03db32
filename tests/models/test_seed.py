"""Rules that a frontend is started with, and saving one."""

from __future__ import annotations

import json

import pytest

from corral.domain.errors import InvalidRequest, NotFound
from corral.models import rules as flow
from corral.store import rules as store
from corral.store.database import Database
from tests.models.scene import list_event_data, made
from tests.support.replicas import insert_rule_backoff
from tests.support.rules import put_rule


@pytest.mark.behaviour("NODE-56")
@pytest.mark.parametrize(
    ("entry", "sentence", "hint"),
    [
        ({"model": "a", "replicas": "all", "min_replicas": 1}, "one replica on every node", None),
        ({"model": "a", "replicas": 3}, "replicas is '3'", "min_replicas and max_replicas"),
        ({"model": "a", "replicas": "many"}, "replicas is 'many'", "min_replicas and max_replicas"),
        ({"min_replicas": 1}, "model is missing", None),
    ],
)
def test_start_is_refused_with_one_invalid_entry(entry: dict[str, object], sentence: str, hint: str | None):
    good = {"model": "good", "min_replicas": 1}
    for inline, text in ((json.dumps([good, entry]), ""), ("", json.dumps([good, entry]))):
        with pytest.raises(InvalidRequest) as caught:
            flow.read_seed(inline, text)
        assert sentence in caught.value.message
        assert hint is None or hint in str(caught.value.hint)
    for broken in ("{", '"x"', "7"):
        with pytest.raises(InvalidRequest):
            flow.read_seed(broken, "")


@pytest.mark.behaviour("NODE-56")
async def test_seed_is_made_so_at_every_start_and_leaves_others_alone(database: Database):
    inline = '[{"model": "a", "replicas": "all"}, {"model": "b", "min_replicas": 1}]'
    seeds = flow.read_seed(inline, "rules:\n- {model: b, max_replicas: 2, replicas: auto}\n")
    assert [(rule.model, rule.spreads, rule.min_replicas, rule.max_replicas) for rule in seeds] == [
        ("a", True, 0, 0),
        ("b", False, 0, 2),
    ]
    async with database.transaction() as tx:
        await put_rule(tx, "unlisted", {}, least=1)
        await put_rule(tx, "b", {"zone": "b"}, least=9)
        assert await flow.seed(tx, seeds) == 2
    async with database.transaction() as tx:
        assert await flow.seed(tx, seeds) == 0
        found = {rule.model: rule for rule in await store.list_rules(tx)}
    assert (found["b"].selector, found["b"].max_replicas) == ({}, 2)
    assert found["unlisted"].min_replicas == 1


async def test_saving_a_rule_ends_its_cooldown_also_if_it_says_the_same(database: Database):
    async with database.transaction() as tx:
        await flow.put(tx, "a", {"min_replicas": 1}, "test")
        await insert_rule_backoff(tx, "a", 3600)
        await flow.put(tx, "b", {}, "test")
        await insert_rule_backoff(tx, "b", 3600)
    async with database.transaction() as tx:
        rule = await flow.put(tx, "a", {"min_replicas": 1}, "test")
    assert (rule.unsatisfiable_until, rule.unsatisfiable_ticks) == (None, 0)
    async with database.transaction() as tx:
        other = await store.get_rule(tx, "b")
    assert other.unsatisfiable_until is not None
    assert [key for key, _ in await list_event_data(database, "rule.changed")] == ["a", "b", "a"]


async def test_rule_for_an_alias_is_the_rule_of_its_model(database: Database):
    await made(database, "real", aliases=["nick"])
    async with database.transaction() as tx:
        assert (await flow.put(tx, "nick", {"model": "nick", "min_replicas": 1}, "test")).model == "real"
        assert (await flow.remove(tx, "nick", "test")).model == "real"
        with pytest.raises(NotFound):
            await flow.remove(tx, "nick", "test")
