"""Credentials are taken back on a running server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from corral.adapters.nats import revocation as revocation_module
from corral.adapters.nats.authority import NatsAuthority, sign_account_token
from corral.adapters.nats.credentials import MAX_TTL_S, new_user_key
from corral.adapters.nats.keys import read_claims
from corral.adapters.nats.revocation import CredentialRevoker, RevocationKeys
from corral.adapters.system import SystemClock
from corral.bus.subjects import BusRole
from corral.domain.errors import Conflict, InvalidRequest, NotAuthenticated, Unprocessable
from corral.ports.runtime import Clock
from tests.bus.conftest import OpenBus, OpenConnection
from tests.bus.nats_server import NatsServer, ShiftedClock, eventually


def revoker(
    server: NatsServer, *, clock: Clock | None = None, authority: NatsAuthority | None = None
) -> CredentialRevoker:
    keys = authority or server.authority
    return CredentialRevoker(
        server.endpoint("revoker"),
        RevocationKeys(
            account_public=server.authority.account_key.public,
            operator_seed=keys.operator_seed,
            system_seed=server.authority.system_seed,
        ),
        clock=clock or SystemClock(),
    )


@pytest.mark.behaviour("BUS-14")
async def test_revoked_credential_is_cut_off_at_once_while_others_stay_connected(
    server: NatsServer, open_bus: OpenBus
) -> None:
    mint = server.provider(BusRole.WORKER, "n1")
    victim = await open_bus(BusRole.WORKER, "n1", credentials=mint)
    other = await open_bus(BusRole.WORKER, "n2")
    interruptions: list[str] = []

    async def interrupted() -> None:
        interruptions.append("n2")

    other.on_reconnect(interrupted)
    await other.refresh_credential()  # a round trip: the callback of its first connect is over
    interruptions.clear()
    async with asyncio.TaskGroup() as group:
        revoking = group.create_task(revoker(server).revoke(mint().public_key))
        await eventually(lambda: not victim.is_connected, "the victim is cut off")
        assert not revoking.done()
    assert other.is_connected
    assert interruptions == []
    with pytest.raises(NotAuthenticated):
        await victim._open()


@pytest.mark.behaviour("BUS-14")
async def test_revocation_survives_a_restart_of_the_server(server: NatsServer, open_connection: OpenConnection) -> None:
    credential, other = server.provider(BusRole.WORKER, "n1")(), server.provider(BusRole.WORKER, "n2")()
    await revoker(server).revoke(credential.public_key)
    await server.restart()
    with pytest.raises(NotAuthenticated):
        await open_connection(credential)
    assert (await open_connection(other)).is_open


@pytest.mark.behaviour("BUS-14")
async def test_node_comes_back_with_a_new_key(server: NatsServer, open_connection: OpenConnection) -> None:
    old = server.provider(BusRole.WORKER, "n1")()
    await revoker(server).revoke(old.public_key)
    assert (await open_connection(server.provider(BusRole.WORKER, "n1")())).is_open


@pytest.mark.behaviour("BUS-14")
async def test_token_from_a_frontend_whose_clock_is_ahead_is_refused_too(
    server: NatsServer, open_connection: OpenConnection
) -> None:
    ahead = ShiftedClock()
    ahead.ahead = timedelta(minutes=2)
    mint = server.minter.make_provider(BusRole.WORKER, subject_id="n1", name="n1", ttl_s=3600, clock=ahead)
    await revoker(server).revoke(mint().public_key)
    with pytest.raises(NotAuthenticated):
        await open_connection(mint())


async def test_revocations_by_several_frontends_at_once_all_hold(
    server: NatsServer, open_connection: OpenConnection
) -> None:
    credentials = [server.provider(BusRole.WORKER, f"n{number}")() for number in range(5)]
    async with asyncio.TaskGroup() as group:
        for credential in credentials:
            group.create_task(revoker(server).revoke(credential.public_key))
    for credential in credentials:
        with pytest.raises(NotAuthenticated):
            await open_connection(credential)


class InterruptingClock(SystemClock):
    """The real clock; during each pause something else happens."""

    def __init__(self, happens: Callable[[], Awaitable[None]]) -> None:
        self.happens = happens

    async def sleep(self, seconds: float) -> None:
        await self.happens()


async def test_revocation_that_a_late_writer_overwrote_is_written_again(server: NatsServer) -> None:
    late = revoker(server)
    first, second = new_user_key()[1], new_user_key()[1]
    connection = await late._connect()
    # This writer has read the claims, and pushes what it made of them only after the other one.
    stale = [late._with_revocations(await late._look_up(connection), [first])]

    async def push_stale() -> None:
        if stale:
            await late._push(connection, stale.pop())
            revoked = (await late._look_up(connection))["nats"]["revocations"]
            assert set(revoked) == {first}

    await revoker(server, clock=InterruptingClock(push_stale)).revoke(second)
    claims = await late._look_up(connection)
    await connection.close()
    assert set(claims["nats"]["revocations"]) == {first, second}
    assert not stale


async def test_revocation_that_is_overwritten_for_ever_fails_with_a_sentence(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revocation_module, "MAX_ROUNDS", 3)
    enemy = revoker(server)
    connection = await enemy._connect()
    original = await enemy._look_up(connection)

    async def undo() -> None:
        await enemy._push(connection, enemy._with_revocations(original, []))

    with pytest.raises(Conflict, match="overwritten repeatedly"):
        await revoker(server, clock=InterruptingClock(undo)).revoke(new_user_key()[1])
    await connection.close()


async def test_old_revocations_are_dropped_when_no_token_of_theirs_can_be_valid(server: NatsServer) -> None:
    long_ago = ShiftedClock()
    long_ago.ahead = -timedelta(seconds=MAX_TTL_S + 3600)
    old, new = new_user_key()[1], new_user_key()[1]
    keys = RevocationKeys(
        account_public=server.authority.account_key.public,
        operator_seed=server.authority.operator_seed,
        system_seed=server.authority.system_seed,
    )
    claims = sign_account_token(server.authority.operator_key, server.authority.account_key.public, name="corral")
    then = CredentialRevoker(server.endpoint(), keys, clock=long_ago)._with_revocations(read_claims(claims), [old])
    assert set(read_claims(then)["nats"]["revocations"]) == {old}
    now = CredentialRevoker(server.endpoint(), keys, clock=SystemClock())._with_revocations(read_claims(then), [new])
    assert set(read_claims(now)["nats"]["revocations"]) == {new}
    assert read_claims(now)["iat"] > read_claims(then)["iat"]


async def test_revocation_without_the_operator_seed_reports_that_credentials_only_expire(server: NatsServer) -> None:
    keys = RevocationKeys(account_public=server.authority.account_key.public)
    without = CredentialRevoker(server.endpoint(), keys, clock=SystemClock())
    assert not without.can_revoke
    with pytest.raises(Unprocessable, match="operator's seed") as caught:
        await without.revoke(new_user_key()[1])
    assert "expires by itself" in str(caught.value.hint)


async def test_seed_of_another_operator_is_noticed_before_anything_is_written(server: NatsServer) -> None:
    with pytest.raises(Unprocessable, match="another operator"):
        await revoker(server, authority=NatsAuthority.create()).revoke(new_user_key()[1])


async def test_seed_is_not_taken_for_a_public_key(server: NatsServer) -> None:
    with pytest.raises(InvalidRequest, match="a seed was given"):
        await revoker(server).revoke(new_user_key()[0])
