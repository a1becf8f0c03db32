"""Keys, tokens and the authority, without a server; and that nothing secret shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from corral.adapters.nats.authority import NatsAuthority, NatsServerTls
from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.connection import BusWarningLog, NatsEndpoint, check_url, strip_url
from corral.adapters.nats.credentials import MAX_TTL_S, UserTokenIssuer, make_credential, new_user_key
from corral.adapters.nats.keys import BadToken, NatsKeyKind, check_public_key, key_from_seed, new_key, read_claims
from corral.bus.subjects import BusRole, make_permissions
from corral.domain.errors import InvalidRequest
from tests.bus.nats_server import NatsServer, eventually

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("kind", list(NatsKeyKind))
def test_seed_of_the_wrong_kind_is_refused_by_name_and_never_repeated(kind: NatsKeyKind) -> None:
    for other in set(NatsKeyKind) - {kind}:
        seed = new_key(other).seed
        with pytest.raises(InvalidRequest, match=f"must begin with {kind.seed_prefix}") as caught:
            key_from_seed(seed, kind)
        assert caught.value.hint == f"The given text is the seed of a NATS {other}."
        assert seed not in str(caught.value)


def test_damaged_seeds_and_public_keys_are_refused() -> None:
    key = new_key(NatsKeyKind.ACCOUNT)
    flipped = key.seed[:20] + ("A" if key.seed[20] != "A" else "B") + key.seed[21:]
    for damaged in (key.seed[:-4], flipped, "SA", "SA not base32!", key.seed + "AAAA"):
        with pytest.raises(InvalidRequest, match="damaged"):
            key_from_seed(damaged, NatsKeyKind.ACCOUNT)
    with pytest.raises(InvalidRequest, match="must begin with SA") as caught:
        key_from_seed(key.public, NatsKeyKind.ACCOUNT)
    assert "public key" in str(caught.value.hint)
    public = new_user_key()[1]
    for wrong in (public[:-1], public[:20] + "2222" + public[24:], key.public, "U" * 56, ""):
        with pytest.raises(InvalidRequest, match="public key of a NATS user"):
            check_public_key(wrong, NatsKeyKind.USER)
    assert check_public_key(f" {public}\n", NatsKeyKind.USER) == public


def test_token_carries_exactly_what_the_registry_allows() -> None:
    authority = NatsAuthority.create()
    seed, public = new_user_key()
    token = UserTokenIssuer(authority.account_seed).mint(
        BusRole.WORKER, public, subject_id="n1", name="rack", ttl_s=60, now=NOW
    )
    claims, allowed = read_claims(token), make_permissions(BusRole.WORKER, "n1")
    assert claims["iss"] == authority.account_key.public
    assert claims["sub"] == public
    assert claims["nats"]["pub"]["allow"] == list(allowed.publish_allow)
    assert claims["nats"]["sub"]["allow"] == list(allowed.subscribe_allow)
    assert claims["nats"]["resp"]["max"] == 1
    built = make_credential(token, seed, subject_id="n1")
    assert built.expires_at == NOW + timedelta(seconds=60)
    assert built.rotate_at == NOW + timedelta(seconds=45)


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, MAX_TTL_S + 1])
def test_token_lives_neither_for_ever_nor_not_at_all(ttl_s: float) -> None:
    minter = UserTokenIssuer(NatsAuthority.create().account_seed)
    with pytest.raises(InvalidRequest, match="30 days"):
        minter.mint(BusRole.WORKER, new_user_key()[1], subject_id="n1", name="n1", ttl_s=ttl_s, now=NOW)


def test_token_and_a_seed_that_do_not_belong_together_are_noticed() -> None:
    minter = UserTokenIssuer(NatsAuthority.create().account_seed)
    token = minter.mint(BusRole.WORKER, new_user_key()[1], subject_id="n1", name="n1", ttl_s=60, now=NOW)
    with pytest.raises(InvalidRequest, match="do not belong together"):
        make_credential(token, new_user_key()[0], subject_id="n1")


def test_token_that_was_tampered_with_is_not_read() -> None:
    minter = UserTokenIssuer(NatsAuthority.create().account_seed)
    token = minter.mint(BusRole.WORKER, new_user_key()[1], subject_id="n1", name="n1", ttl_s=60, now=NOW)
    head, body, signature = token.split(".")
    for bad in (f"{head}.{body}x.{signature}", f"{head}.{body}", "", f"{head}.{body}.{signature[:-6]}AAAAAA"):
        with pytest.raises(BadToken):
            read_claims(bad)


def test_authority_survives_serialisation_and_a_damaged_file_is_refused() -> None:
    authority = NatsAuthority.create()
    assert NatsAuthority.from_json(authority.to_json()) == authority
    for damaged in ("", "{}", "[]", authority.to_json().replace("SA", "SU")):
        with pytest.raises(InvalidRequest):
            NatsAuthority.from_json(damaged)


def test_servers_configuration_is_the_same_at_every_start_and_takes_any_directory(tmp_path: Path) -> None:
    authority = NatsAuthority.create()
    tls = NatsServerTls(cert=tmp_path / "c.pem", key=tmp_path / "k.pem", ca=tmp_path / "ca.pem", verify=True)
    texts = {authority.render_server_config(host="::1", port=4222, directory=tmp_path, tls=tls) for _ in range(2)}
    assert len(texts) == 1
    text = texts.pop()
    assert '"[::1]:4222"' in text
    assert '"verify": true' in text


async def test_server_starts_in_a_directory_with_a_difficult_name(tmp_path: Path) -> None:
    directory = tmp_path / 'of "Zoë" \\ $HOME'
    directory.mkdir()
    async with NatsServer(directory) as server:
        bus = server.bus(BusRole.FRONTEND, "f1")
        await bus.start()
        await eventually(lambda: bus.is_connected, "it is connected")
        await bus.stop()


@pytest.mark.behaviour("OPS-93")
async def test_secrets_are_absent_from_logs_errors_representations_and_the_servers_files(server: NatsServer) -> None:
    mint = server.provider(BusRole.FRONTEND, "f1")
    with_password = server.url.replace("//", "//someone:hunter2@")
    endpoint = NatsEndpoint(urls=(with_password,), client_name="f1")
    shown: list[str] = [repr(server.authority), repr(mint()), repr(endpoint), endpoint.printable]
    bus = server.bus(BusRole.FRONTEND, "f1", credentials=mint)
    bus = NatsBus(endpoint, mint, clock=bus._clock, rng=bus._loop.rng, timing=None)
    with capture_logs() as logs:
        await bus.start()
        await eventually(lambda: bus.is_connected, "it is connected")
        await bus.refresh_credential()
        await server.kill()
        await eventually(lambda: any(entry["log_level"] == "warning" for entry in logs), "the outage is logged")
        with pytest.raises(Exception, match="no connection") as caught:
            bus._require_connection()
        await bus.stop()
    shown += [str(logs), str(caught.value), repr(bus), repr(bus._current), server.log]
    shown += [path.read_text() for path in server.directory.rglob("*") if path.is_file()]
    text = "\n".join(shown)
    assert f"127.0.0.1:{server.port}" in text
    secrets = [server.authority.operator_seed, server.authority.account_seed, server.authority.system_seed]
    for secret in (*secrets, mint().seed, mint().token, "hunter2", "someone"):
        assert secret not in text


@pytest.mark.behaviour("OPS-93")
@pytest.mark.parametrize(
    ("url", "printed"),
    [
        ("nats://user:pass@host:4222", "nats://host:4222"),
        ("tls://token@host", "tls://host"),
        ("host:4222", "nats://host:4222"),
        ("user:p@ss@host:4222", "nats://host:4222"),
        ("nats://host:4222/path?token=x", "nats://host:4222"),
        ("nats://[::1]:4222", "nats://[::1]:4222"),
    ],
)
def test_address_is_printed_without_its_secrets(url: str, printed: str) -> None:
    assert strip_url(url) == printed


@pytest.mark.parametrize("url", ["", "http://host:4222", "nats://", "nats://host:notaport", "nats://u:hunter2@:1"])
def test_invalid_bus_address_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_url(url)
    assert "hunter2" not in str(caught.value)


def test_endpoint_needs_an_address() -> None:
    with pytest.raises(InvalidRequest, match="address"):
        NatsEndpoint(urls=(), client_name="x")


def test_sentence_is_logged_once_until_things_were_well_again() -> None:
    reporter = BusWarningLog("x")
    with capture_logs() as logs:
        for sentence in ("a", "b", "a", "a"):
            reporter.warn(sentence)
        reporter.forget()
        reporter.warn("a")
    assert [entry["problem"] for entry in logs] == ["a", "b", "a"]
