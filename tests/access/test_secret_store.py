"""The store of secrets on a real database: whose they are, their limits, what is recorded, and how they go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text

from corral.access import keys, users
from corral.access.secret_sealer import SecretSealer, SecretUnreadable
from corral.access.secret_store import NoSecretsKey, SecretStore
from corral.adapters.system import SystemIdGenerator
from corral.domain.access import CLUSTER, Owner, Scope
from corral.domain.errors import Conflict, InvalidRequest, NotAuthenticated, NotFound
from corral.domain.secret import SECRETS_OF_OWNER_MAX, VALUE_BYTES_MAX, SecretValue
from corral.policy.sealing_keys import SealingKey
from corral.store import secrets as secret_rows
from corral.store.database import Database
from tests.access.test_secret_sealer import FIRST, SECOND
from tests.support.polling import eventually

IDS = SystemIdGenerator()
VALUE = SecretValue("hf_the-value-that-nobody-may-see")


def make_store(database: Database, *sealing_keys: SealingKey) -> SecretStore:
    return SecretStore(database, IDS, SecretSealer(sealing_keys, IDS) if sealing_keys else None)


@pytest.fixture
def store(database: Database) -> SecretStore:
    return make_store(database, FIRST)


async def make_user(database: Database, name: str = "ada") -> Owner:
    async with database.transaction() as tx:
        made = await users.create_user(tx, IDS, users.UserSpec(name=name, scope=Scope.INFER), "test")
    return Owner(user_id=made.id)


async def make_key(database: Database, **spec: Any) -> Owner:
    async with database.transaction() as tx:
        made, _ = await keys.create_key(tx, IDS, keys.KeySpec(name="shop", **spec), "test")
    return Owner(key_id=made.id)


async def fetch(database: Database, query: str) -> list[Any]:
    async with database.transaction() as tx:
        return [row[0] for row in await tx.execute(text(query))]


def make_row(name: str) -> dict[str, Any]:
    return {"id": IDS.new_id(), "name": name, "sealed": b"x", "key_id": FIRST.id, "changed_by": "test"}


async def wait_for_blocked_or_ended(database: Database, task: asyncio.Task[Any]) -> None:
    async def is_blocked_or_ended() -> bool:
        return task.done() or bool(await fetch(database, "SELECT 1 FROM pg_locks WHERE NOT granted"))

    await eventually(is_blocked_or_ended)


async def test_secret_is_put_listed_resolved_replaced_and_deleted(database: Database, store: SecretStore) -> None:
    ada = await make_user(database)
    first = await store.put(ada, "hub", SecretValue("one"), "ada")
    again = await store.put(ada, "hub", VALUE, "somebody")
    assert (again.id, again.name, again.created_at) == (first.id, "hub", first.created_at)
    assert again.updated_at > first.updated_at
    assert (first.changed_by, again.changed_by) == ("ada", "somebody")
    await store.put(ada, "a.first", SecretValue("two"), "ada")
    assert [secret.name for secret in await store.list(ada)] == ["a.first", "hub"]
    assert await store.resolve(ada, ["hub", "a.first"]) == {"hub": VALUE, "a.first": SecretValue("two")}
    await store.delete(ada, "hub", "ada")
    assert [secret.name for secret in await store.list(ada)] == ["a.first"]
    assert await store.resolve(ada, []) == {}


@pytest.mark.behaviour("SEC-2")
async def test_secrets_of_owners_with_the_same_names_are_apart(database: Database, store: SecretStore) -> None:
    owners = [await make_user(database), await make_user(database, "bob"), await make_key(database), CLUSTER]
    for owner in owners:
        await store.put(owner, "hub", SecretValue(f"of {owner}"), "test")
    for owner in owners:
        assert len(await store.list(owner)) == 1
        assert (await store.resolve(owner, ["hub"]))["hub"].text == f"of {owner}"
    await store.delete(owners[0], "hub", "test")
    assert [len(await store.list(owner)) for owner in owners] == [0, 1, 1, 1]
    with pytest.raises(NotFound, match=r"There is no secret named hub\."):
        await store.resolve(owners[0], ["hub"])


async def test_resolve_names_every_secret_that_does_not_exist(database: Database, store: SecretStore) -> None:
    await store.put(CLUSTER, "hub", VALUE, "test")
    with pytest.raises(NotFound) as caught:
        await store.resolve(CLUSTER, ["one", "hub", "other"])
    assert (caught.value.slug, caught.value.message) == (
        "secret_not_found",
        "There is no cluster secret named one, other.",
    )
    assert "corral secrets set --cluster" in str(caught.value.hint)


async def test_resolve_records_the_use_and_listing_does_not(database: Database, store: SecretStore) -> None:
    ada = await make_user(database)
    await store.put(ada, "hub", VALUE, "ada")
    await store.put(ada, "other", VALUE, "ada")
    assert [secret.last_used_at for secret in await store.list(ada)] == [None, None]
    await store.resolve(ada, ["hub"])
    (used, unused) = await store.list(ada)
    assert used.last_used_at is not None
    assert unused.last_used_at is None
    # Within the same minute it is not written again.
    await store.resolve(ada, ["hub"])
    assert (await store.list(ada))[0].last_used_at == used.last_used_at


@pytest.mark.behaviour("SEC-4")
async def test_row_that_was_copied_to_another_name_or_owner_does_not_open(
    database: Database, store: SecretStore
) -> None:
    ada, bob = await make_user(database), await make_user(database, "bob")
    for owner, name in ((ada, "hub"), (ada, "other"), (bob, "hub")):
        await store.put(owner, name, SecretValue(f"{name} of {owner}"), "test")
    copied = f"(SELECT sealed FROM secrets WHERE owner = '{bob}')"
    async with database.transaction() as tx:
        await tx.execute(text(f"UPDATE secrets SET sealed = {copied} WHERE owner = '{ada}' AND name = 'hub'"))
    with pytest.raises(SecretUnreadable, match="The secret hub cannot be read"):
        await store.resolve(ada, ["hub"])
    copied = f"(SELECT sealed FROM secrets WHERE owner = '{ada}' AND name = 'other')"
    async with database.transaction() as tx:
        await tx.execute(text(f"UPDATE secrets SET sealed = {copied} WHERE owner = '{ada}' AND name = 'hub'"))
    with pytest.raises(SecretUnreadable, match="The secret hub cannot be read"):
        await store.resolve(ada, ["other", "hub"])
    assert (await store.list(ada))[0].last_used_at is None
    assert (await store.resolve(ada, ["other"]))["other"].text == f"other of {ada}"


@pytest.mark.behaviour("SEC-4")
async def test_frontend_with_another_key_lists_deletes_and_replaces_what_it_cannot_read(
    database: Database, store: SecretStore
) -> None:
    ada = await make_user(database)
    for name in ("hub", "other"):
        await store.put(ada, name, VALUE, "ada")
    stranger = make_store(database, SECOND)
    with pytest.raises(SecretUnreadable, match="The secret hub cannot be read: it was sealed with the key"):
        await stranger.resolve(ada, ["hub"])
    assert len(await stranger.list(ada)) == 2
    await stranger.delete(ada, "other", "ada")
    await stranger.put(ada, "hub", SecretValue("new"), "ada")
    assert await stranger.resolve(ada, ["hub"]) == {"hub": SecretValue("new")}


@pytest.mark.behaviour("SEC-5")
async def test_store_without_a_key_lists_and_deletes_and_neither_puts_nor_resolves(
    database: Database, store: SecretStore
) -> None:
    ada = await make_user(database)
    await store.put(ada, "hub", VALUE, "ada")
    keyless = make_store(database)
    for work in (keyless.put(ada, "hub", SecretValue("new"), "ada"), keyless.resolve(ada, ["hub"])):
        with pytest.raises(NoSecretsKey) as caught:
            await work
        assert (caught.value.slug, caught.value.status) == ("no_secrets_key", 503)
        assert "secrets_key_file" in str(caught.value.hint)
    assert await keyless.reseal() == 0
    assert len(await keyless.list(ada)) == 1
    await keyless.delete(ada, "hub", "ada")
    assert await store.list(ada) == []


@pytest.mark.behaviour("SEC-6")
async def test_reseal_moves_every_value_to_the_first_key_and_keeps_the_rest(
    database: Database, store: SecretStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.access.secret_store.RESEAL_BATCH", 2)
    ada = await make_user(database)
    names = [f"s{number}" for number in range(5)]
    for name in names:
        await store.put(ada, name, SecretValue(f"value of {name}"), "ada")
    before = await store.list(ada)
    both = make_store(database, SECOND, FIRST)
    assert (await both.resolve(ada, ["s0"]))["s0"].text == "value of s0"
    assert await store.reseal() == 0
    assert await both.reseal() == 5
    assert await both.reseal() == 0
    new = make_store(database, SECOND)
    assert {name: value.text for name, value in (await new.resolve(ada, names)).items()} == {
        name: f"value of {name}" for name in names
    }
    assert [(one.id, one.updated_at) for one in await store.list(ada)] == [(one.id, one.updated_at) for one in before]


async def test_reseal_leaves_alone_what_it_cannot_open(database: Database, store: SecretStore) -> None:
    ada = await make_user(database)
    for name in ("damaged", "whole"):
        await store.put(ada, name, VALUE, "ada")
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE secrets SET sealed = sealed || 'x'::bytea WHERE name = 'damaged'"))
    assert await make_store(database, SECOND, FIRST).reseal() == 1
    assert await fetch(database, "SELECT key_id FROM secrets ORDER BY name") == [FIRST.id, SECOND.id]


async def test_reseal_does_not_bring_back_a_value_that_was_replaced_meanwhile(
    database: Database, store: SecretStore
) -> None:
    await store.put(CLUSTER, "hub", SecretValue("old"), "test")
    async with database.transaction() as tx:
        (row,) = await secret_rows.list_sealed_with(tx, [FIRST.id], 10, None)
    await store.put(CLUSTER, "hub", VALUE, "test")
    async with database.transaction() as tx:
        assert await secret_rows.replace_sealed(tx, row, row.sealed, SECOND.id) is False
    assert await store.resolve(CLUSTER, ["hub"]) == {"hub": VALUE}


@pytest.mark.behaviour("SEC-2")
async def test_owner_has_a_hundred_secrets_at_most(database: Database, store: SecretStore) -> None:
    ada, bob = await make_user(database), await make_user(database, "bob")
    for number in range(SECRETS_OF_OWNER_MAX):
        await store.put(ada, f"s{number}", SecretValue("x"), "ada")
    with pytest.raises(Conflict, match="There are 100 secrets already") as caught:
        await store.put(ada, "one-more", SecretValue("x"), "ada")
    assert caught.value.slug == "too_many_secrets"
    assert "corral secrets delete NAME" in str(caught.value.hint)
    await store.put(ada, "s7", SecretValue("a new value is no new secret"), "ada")
    await store.put(bob, "hub", VALUE, "bob")
    await store.delete(ada, "s7", "ada")
    await store.put(ada, "another", VALUE, "ada")


@pytest.mark.behaviour("SEC-2")
async def test_secret_waits_for_another_one_of_its_owner_and_is_then_one_too_many(
    database: Database, store: SecretStore
) -> None:
    for number in range(SECRETS_OF_OWNER_MAX - 1):
        await store.put(CLUSTER, f"s{number}", SecretValue("x"), "test")
    async with database.transaction() as tx:
        await secret_rows.lock_owner(tx, CLUSTER)
        await secret_rows.insert_secret(tx, CLUSTER, make_row("last"))
        late = asyncio.create_task(store.put(CLUSTER, "one-more", VALUE, "test"))
        await wait_for_blocked_or_ended(database, late)
    with pytest.raises(Conflict, match="There are 100 secrets already"):
        await late


@pytest.mark.behaviour("SEC-10")
async def test_name_or_value_outside_the_limits_stores_nothing(database: Database, store: SecretStore) -> None:
    for name, value in (
        ("two words", "x"),
        ("", "x"),
        ("hub", ""),
        ("hub", "a\x00b"),
        ("hub", "x" * VALUE_BYTES_MAX * 2),
    ):
        with pytest.raises(InvalidRequest):
            await store.put(CLUSTER, name, SecretValue(value), "test")
    for name in ("two words", "a\x00b", "none"):
        with pytest.raises(NotFound) as caught:
            await store.delete(CLUSTER, name, "test")
        assert caught.value.slug == "secret_not_found"
    assert await store.list(CLUSTER) == []


async def test_secret_of_the_largest_size_is_stored_and_read(store: SecretStore) -> None:
    value = SecretValue("ä" * (VALUE_BYTES_MAX // 2))
    await store.put(CLUSTER, "large", value, "test")
    assert await store.resolve(CLUSTER, ["large"]) == {"large": value}


@pytest.mark.behaviour("SEC-7")
async def test_secrets_go_with_their_user(database: Database, store: SecretStore) -> None:
    ada, bob = await make_user(database), await make_user(database, "bob")
    for owner in (ada, bob, CLUSTER):
        await store.put(owner, "hub", VALUE, "test")
    async with database.transaction() as tx:
        await users.delete_user(tx, ada.user_id or "", "admin")
    assert await fetch(database, "SELECT owner FROM secrets ORDER BY owner") == ["cluster", str(bob)]


@pytest.mark.behaviour("SEC-7")
async def test_secrets_go_when_their_key_is_revoked_and_stay_when_a_key_of_a_user_is(
    database: Database, store: SecretStore
) -> None:
    ada, shop = await make_user(database), await make_key(database)
    of_ada = await make_key(database, user_id=ada.user_id)
    for owner in (ada, shop):
        await store.put(owner, "hub", VALUE, "test")
    for key in (of_ada, shop):
        async with database.transaction() as tx:
            await keys.revoke_key(tx, key.key_id or "", "admin")
    assert await fetch(database, "SELECT owner FROM secrets") == [str(ada)]


@pytest.mark.behaviour("SEC-7")
async def test_secret_is_not_stored_for_an_owner_that_is_gone(database: Database, store: SecretStore) -> None:
    ada, shop = await make_user(database), await make_key(database)
    async with database.transaction() as tx:
        await users.delete_user(tx, ada.user_id or "", "admin")
        await keys.revoke_key(tx, shop.key_id or "", "admin")
    for owner in (ada, shop):
        with pytest.raises(NotAuthenticated):
            await store.put(owner, "hub", VALUE, "test")
    assert await fetch(database, "SELECT owner FROM secrets") == []


@pytest.mark.behaviour("SEC-7")
async def test_revocation_waits_for_a_secret_that_is_being_stored_and_deletes_it(
    database: Database, store: SecretStore
) -> None:
    shop = await make_key(database)

    async def revoke() -> None:
        async with database.transaction() as tx:
            await keys.revoke_key(tx, shop.key_id or "", "admin")

    async with database.transaction() as tx:
        assert await secret_rows.lock_owner(tx, shop)
        revocation = asyncio.create_task(revoke())
        await wait_for_blocked_or_ended(database, revocation)
        await secret_rows.insert_secret(tx, shop, make_row("hub"))
    await revocation
    assert await store.list(shop) == []


@pytest.mark.behaviour("SEC-1")
async def test_audit_holds_the_reference_and_events_hold_the_id_alone(database: Database, store: SecretStore) -> None:
    ada = await make_user(database)
    first = await store.put(ada, "hub", VALUE, "ada")
    await store.put(ada, "hub", VALUE, "ada")
    await store.delete(ada, "hub", "ada")
    second = await store.put(CLUSTER, "hub", VALUE, "root")
    lines = "SELECT actor || ' ' || action || ' ' || target || ' ' || detail FROM audit WHERE action LIKE 'secret.%'"
    assert await fetch(database, f"{lines} ORDER BY id") == [
        f"ada secret.put {first.id} secret:hub",
        f"ada secret.put {first.id} secret:hub",
        f"ada secret.delete {first.id} secret:hub",
        f"root secret.put {second.id} cluster-secret:hub",
    ]
    events = "SELECT kind || ' ' || key || ' ' || data::text FROM outbox WHERE kind LIKE 'secret.%' ORDER BY number"
    assert await fetch(database, events) == [
        f"secret.changed {first.id} {{}}",
        f"secret.changed {first.id} {{}}",
        f"secret.deleted {first.id} {{}}",
        f"secret.changed {second.id} {{}}",
    ]


async def test_table_refuses_an_owner_that_contradicts_its_user_or_key(database: Database, store: SecretStore) -> None:
    ada = await make_user(database)
    await store.put(ada, "hub", VALUE, "ada")
    for change in ("owner = 'cluster'", "user_id = NULL", "owner = 'key:1'"):
        with pytest.raises(Exception, match="secrets_owner_check"):
            async with database.transaction() as tx:
                await tx.execute(text(f"UPDATE secrets SET {change}"))
