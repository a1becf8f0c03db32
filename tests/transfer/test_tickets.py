"""Tickets: who is let in, and everybody who is not."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest

from corral.adapters.nats.claims import sign_claims
from corral.adapters.nats.credentials import UserMinter
from corral.adapters.nats.keys import Key, KeyKind, new_key
from corral.domain.errors import CorralError, InvalidRequest
from corral.ports.credentials import READS_BLOBS, writes_file
from corral.transfer.tickets import GRACE_S, Ticket, check_ticket_key, sign_ticket, verify_ticket

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def account() -> Key:
    return new_key(KeyKind.ACCOUNT)


def made(account: Key, *, life_s: float = 60, audience: str = "*", scope: str = READS_BLOBS) -> str:
    expires_at = int(NOW.timestamp() + life_s)
    ticket = Ticket(reader="node-2", scope=scope, expires_at=expires_at, audience=audience)
    return sign_ticket(ticket, UserMinter(account.seed).sign)


def refusal(text: str, account: Key, *, scope: str = READS_BLOBS) -> str:
    with pytest.raises(CorralError) as caught:
        verify_ticket(text, account.public, audience="node-1", scopes=(scope,), now=NOW)
    return caught.value.slug


@pytest.mark.behaviour("FILE-10")
@pytest.mark.parametrize("audience", ["*", "node-1"])
def test_a_ticket_lets_its_reader_in(account: Key, audience: str) -> None:
    ticket = verify_ticket(
        made(account, audience=audience), account.public, audience="node-1", scopes=(READS_BLOBS,), now=NOW
    )
    assert (ticket.reader, ticket.scope, ticket.audience) == ("node-2", READS_BLOBS, audience)


@pytest.mark.behaviour("FILE-10")
def test_a_ticket_runs_out_with_a_little_grace_for_clocks(account: Key) -> None:
    text = made(account, life_s=10)
    late = NOW + timedelta(seconds=10 + GRACE_S)
    verify_ticket(text, account.public, audience="node-1", scopes=(READS_BLOBS,), now=late)
    with pytest.raises(CorralError) as caught:
        verify_ticket(text, account.public, audience="node-1", scopes=(READS_BLOBS,), now=late + timedelta(seconds=1))
    assert caught.value.slug == "ticket_expired"


@pytest.mark.behaviour("FILE-10")
def test_a_ticket_of_another_cluster_another_node_or_another_right_is_refused(account: Key) -> None:
    assert refusal(made(new_key(KeyKind.ACCOUNT)), account) == "ticket_forged"
    assert refusal(made(account, audience="node-3"), account) == "ticket_elsewhere"
    assert refusal(made(account, scope=writes_file("a")), account) == "ticket_scope"
    assert refusal(made(account, scope=writes_file("a")), account, scope=writes_file("b")) == "ticket_scope"


@pytest.mark.behaviour("FILE-10")
def test_a_changed_ticket_is_refused(account: Key) -> None:
    mark, body, signature = made(account, audience="node-3").split(".")
    wider = base64.urlsafe_b64decode(body + "==").replace(b"node-3", b"node-1")
    changed = base64.urlsafe_b64encode(wider).decode().rstrip("=")
    assert refusal(f"{mark}.{changed}.{signature}", account) == "ticket_forged"
    assert refusal(f"{mark}.{body}.", account) == "ticket_forged"


@pytest.mark.behaviour("FILE-10")
@pytest.mark.parametrize("text", ["", "ct1", "ct1.a.b.c", "ct2.a.b", "ct1." + "a" * 5000 + ".b"])
def test_what_is_no_ticket_is_refused(account: Key, text: str) -> None:
    assert refusal(text, account) == "ticket_needed"


@pytest.mark.behaviour("FILE-10")
def test_a_token_of_the_bus_is_no_ticket(account: Key) -> None:
    """Both are signed with the same key."""
    claims = {"sub": "node-2", "scope": READS_BLOBS, "exp": int(NOW.timestamp()) + 60, "aud": "*"}
    _, body, signature = sign_claims(claims, account).split(".")
    assert refusal(f"ct1.{body}.{signature}", account) == "ticket_forged"


@pytest.mark.behaviour("FILE-10")
def test_without_a_key_nobody_is_let_in(account: Key) -> None:
    with pytest.raises(CorralError) as caught:
        verify_ticket(made(account), "", audience="node-1", scopes=(READS_BLOBS,), now=NOW)
    assert caught.value.slug == "no_ticket_key"
    with pytest.raises(InvalidRequest):
        check_ticket_key("AAAA")
    assert check_ticket_key(account.public) == account.public
