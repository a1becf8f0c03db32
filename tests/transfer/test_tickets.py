"""Tickets: who is let in, and everybody who is not."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest

from corral.adapters.nats.credentials import UserTokenIssuer
from corral.adapters.nats.keys import NatsKey, NatsKeyKind, new_key, sign_claims
from corral.domain.errors import CorralError, InvalidRequest
from corral.ports.credentials import BLOB_READ_SCOPE, make_file_write_scope
from corral.transfer.tickets import GRACE_S, Ticket, sign_ticket, verify_ticket

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def account() -> NatsKey:
    return new_key(NatsKeyKind.ACCOUNT)


def made(account: NatsKey, *, life_s: float = 60, audience: str = "*", scope: str = BLOB_READ_SCOPE) -> str:
    expires_at = int(NOW.timestamp() + life_s)
    ticket = Ticket(reader="node-2", scope=scope, expires_at=expires_at, audience=audience)
    return sign_ticket(ticket, UserTokenIssuer(account.seed).sign)


def refusal(text: str, account: NatsKey, *, scope: str = BLOB_READ_SCOPE) -> str:
    with pytest.raises(CorralError) as caught:
        verify_ticket(text, account.public, audience="node-1", scopes=(scope,), now=NOW)
    return caught.value.slug


@pytest.mark.behaviour("FILE-10")
@pytest.mark.parametrize("audience", ["*", "node-1"])
def test_ticket_lets_its_reader_in(account: NatsKey, audience: str) -> None:
    ticket = verify_ticket(
        made(account, audience=audience), account.public, audience="node-1", scopes=(BLOB_READ_SCOPE,), now=NOW
    )
    assert (ticket.reader, ticket.scope, ticket.audience) == ("node-2", BLOB_READ_SCOPE, audience)


@pytest.mark.behaviour("FILE-10")
def test_ticket_runs_out_with_a_little_grace_for_clocks(account: NatsKey) -> None:
    text = made(account, life_s=10)
    late = NOW + timedelta(seconds=10 + GRACE_S)
    verify_ticket(text, account.public, audience="node-1", scopes=(BLOB_READ_SCOPE,), now=late)
    with pytest.raises(CorralError) as caught:
        verify_ticket(
            text, account.public, audience="node-1", scopes=(BLOB_READ_SCOPE,), now=late + timedelta(seconds=1)
        )
    assert caught.value.slug == "ticket_expired"


@pytest.mark.behaviour("FILE-10")
def test_ticket_of_another_cluster_another_node_or_another_right_is_refused(account: NatsKey) -> None:
    assert refusal(made(new_key(NatsKeyKind.ACCOUNT)), account) == "ticket_forged"
    assert refusal(made(account, audience="node-3"), account) == "ticket_elsewhere"
    assert refusal(made(account, scope=make_file_write_scope("a")), account) == "ticket_scope"
    assert (
        refusal(made(account, scope=make_file_write_scope("a")), account, scope=make_file_write_scope("b"))
        == "ticket_scope"
    )


@pytest.mark.behaviour("FILE-10")
def test_changed_ticket_is_refused(account: NatsKey) -> None:
    mark, body, signature = made(account, audience="node-3").split(".")
    wider = base64.urlsafe_b64decode(body + "==").replace(b"node-3", b"node-1")
    changed = base64.urlsafe_b64encode(wider).decode().rstrip("=")
    assert refusal(f"{mark}.{changed}.{signature}", account) == "ticket_forged"
    assert refusal(f"{mark}.{body}.", account) == "ticket_forged"


@pytest.mark.behaviour("FILE-10")
@pytest.mark.parametrize("text", ["", "ct1", "ct1.a.b.c", "ct2.a.b", "ct1." + "a" * 5000 + ".b"])
def test_invalid_ticket_is_refused(account: NatsKey, text: str) -> None:
    assert refusal(text, account) == "ticket_needed"


@pytest.mark.behaviour("FILE-10")
def test_token_of_the_bus_is_no_ticket(account: NatsKey) -> None:
    """Both are signed with the same key."""
    claims = {"sub": "node-2", "scope": BLOB_READ_SCOPE, "exp": int(NOW.timestamp()) + 60, "aud": "*"}
    _, body, signature = sign_claims(claims, account).split(".")
    assert refusal(f"ct1.{body}.{signature}", account) == "ticket_forged"


@pytest.mark.behaviour("FILE-10")
def test_ticket_is_refused_without_a_verification_key(account: NatsKey) -> None:
    with pytest.raises(CorralError) as caught:
        verify_ticket(made(account), "", audience="node-1", scopes=(BLOB_READ_SCOPE,), now=NOW)
    assert caught.value.slug == "no_ticket_key"
    with pytest.raises(InvalidRequest):
        verify_ticket(made(account), "AAAA", audience="node-1", scopes=(BLOB_READ_SCOPE,), now=NOW)
