"""Sends the webhooks of runs that have ended: signed, a few times if the receiver fails, and recorded.

Guarantees: a delivery is due however its run ended, also if the frontend died at that moment: that is read from the
rows. Two frontends do not send the same attempt. A receiver may get a delivery more than once, always with the same
`webhook-id`. Redirects are not followed, and the connection is made to an address that was checked. An owner whose
receivers do not answer holds up no other owner. Limit: three attempts within seconds; a receiver that is away for
longer reads the job instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import structlog

from corral.domain.access import Owner, parse_owner
from corral.domain.errors import CorralError, Unavailable
from corral.domain.run import Run
from corral.domain.task import WebhookState
from corral.policy.tasks import check_address, check_headers
from corral.policy.webhooks import (
    ATTEMPTS_MAX,
    PAUSES_S,
    TIMEOUT_S,
    make_payload,
    parse_secret,
    render_body,
    sign_delivery,
)
from corral.ports.files import Fetcher, FetchRequest
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.store import webhooks as store
from corral.store.database import Database
from corral.store.webhooks import ClaimedDelivery, ClaimLimits, DeliveryOutcome
from corral.tasks.secret_values import SecretResolver, resolve_values

log = structlog.get_logger(__name__)
INTERVAL_S = 1.0
# Attempts under way at the same time on one frontend, of all owners and of one.
SENDING_MAX = 64
SENDING_OF_OWNER_MAX = 4
# Longer than an attempt can take: after it another frontend may try.
LEASE_S = 2 * TIMEOUT_S
# What cannot be sent yet, because a secret cannot be read here, is tried again so long after the end of its run:
# another frontend may have the key.
UNSENT_LIMIT_S = 60.0
UNSENT_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSenderDeps:
    """Dependencies of the sender of task webhooks: what it needs of its frontend."""

    database: Database
    fetcher: Fetcher
    clock: Clock
    secrets: SecretResolver
    # Returns the key that webhooks of a task are signed with, by the task's id.
    derive_key: Callable[[str], bytes]
    # Whether webhooks may lead into private networks.
    allows_private: bool = False
    on_crash: Callable[[BaseException], None] | None = None


class WebhookSender:
    """Claims webhooks of ended task jobs that are due, and sends them in the background."""

    def __init__(self, deps: WebhookSenderDeps) -> None:
        self._deps = deps
        self._tasks = TaskSet("webhooks", deps.on_crash)
        # How many deliveries of which owner are under way.
        self._sending: Counter[str] = Counter()

    async def tick(self) -> int:
        """Begin to send what is due, and return how many."""
        free = SENDING_MAX - len(self._tasks)
        if free <= 0:
            return 0
        async with self._deps.database.transaction() as tx:
            limits = ClaimLimits(number=free, of_owner=SENDING_OF_OWNER_MAX, attempts=ATTEMPTS_MAX, lease_s=LEASE_S)
            claimed = await store.claim_due(tx, limits, +self._sending)
        for one in claimed:
            self._sending[one.run.owner] += 1
            self._tasks.start(self._deliver_counted(one), name="deliver")
        return len(claimed)

    async def join(self) -> None:
        """Wait until nothing is being sent."""
        await self._tasks.join()

    async def close(self) -> None:
        await self._tasks.close()

    async def _deliver_counted(self, claimed: ClaimedDelivery) -> None:
        try:
            await self._deliver(claimed)
        finally:
            self._sending[claimed.run.owner] -= 1

    async def _deliver(self, claimed: ClaimedDelivery) -> None:
        made = await attempt(partial(self._make_request, claimed))
        if isinstance(made, AttemptFailure):
            outcome = _judge_unsent(made, claimed)
        else:
            sent = await attempt(partial(self._deps.fetcher.fetch, made.value))
            outcome = (
                _judge_error(sent, claimed.attempt)
                if isinstance(sent, AttemptFailure)
                else _judge_status(sent.value.status, claimed.attempt)
            )
        written = await attempt(partial(self._record, claimed, outcome))
        if isinstance(written, AttemptFailure):
            # The lease runs out, and the delivery is attempted once more.
            log.warning("the outcome of a webhook was not recorded", run=claimed.run.id, error=written.sentence)

    async def _record(self, claimed: ClaimedDelivery, outcome: DeliveryOutcome) -> None:
        async with self._deps.database.transaction() as tx:
            await store.record_attempt(tx, claimed, outcome)

    async def _make_request(self, claimed: ClaimedDelivery) -> FetchRequest:
        """Return the request of one attempt, with the values of secrets in it."""
        run, owner = claimed.run, parse_owner(claimed.run.owner)
        webhook: Mapping[str, Any] = run.request["webhooks"][claimed.position]
        url = (await resolve_values(self._deps.secrets, owner, {"url": webhook["url"]}))["url"]
        check_address(url)
        check_headers(webhook["headers"])
        headers = await resolve_values(self._deps.secrets, owner, webhook["headers"])
        body = render_body(make_payload(run), webhook["payload_template"])
        key = await self._find_key(run, owner)
        return FetchRequest(
            url=url,
            method=webhook["method"],
            headers={
                "content-type": "application/json",
                **{name.lower(): value for name, value in headers.items()},
                **sign_delivery(key, claimed.id, self._deps.clock.wall(), body),
            },
            body=body,
            reads_body=False,
            timeout_s=TIMEOUT_S,
            is_public_only=not self._deps.allows_private,
            follows_redirects=False,
        )

    async def _find_key(self, run: Run, owner: Owner) -> bytes:
        reference = run.request["webhook_secret"]
        if not reference:
            return self._deps.derive_key(str(run.request["task_id"]))
        resolved = await resolve_values(self._deps.secrets, owner, {"key": reference})
        return parse_secret(resolved["key"])


def _judge_status(status: int, attempt_number: int) -> DeliveryOutcome:
    """Return the outcome of a response with this status: only a failing server is tried again."""
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return DeliveryOutcome(state=WebhookState.DELIVERED, status=status)
    if status < HTTPStatus.BAD_REQUEST:
        error = f"The receiver answered {status}, and redirects are not followed."
        return DeliveryOutcome(state=WebhookState.FAILED, status=status, error=error)
    error = f"The receiver answered {status}."
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return DeliveryOutcome(state=WebhookState.FAILED, status=status, error=error)
    return _plan_retry(attempt_number, error, status)


def _judge_error(failure: AttemptFailure, attempt_number: int) -> DeliveryOutcome:
    error = failure.error
    if not isinstance(error, CorralError):
        log.error("a webhook failed for an unexpected reason", error=failure.sentence, exc_info=error)
        return DeliveryOutcome(
            state=WebhookState.FAILED,
            error="Corral could not send the webhook; the log of the frontend has the reason.",
        )
    if isinstance(error, Unavailable) and error.retryable:
        return _plan_retry(attempt_number, error.message, None)
    return DeliveryOutcome(state=WebhookState.FAILED, error=error.message)


def _judge_unsent(failure: AttemptFailure, claimed: ClaimedDelivery) -> DeliveryOutcome:
    """Return the outcome of an attempt of which nothing was sent. It is made again for a while, and counts once."""
    error = failure.error
    if isinstance(error, Unavailable) and error.retryable and claimed.age_s < UNSENT_LIMIT_S:
        return DeliveryOutcome(state=WebhookState.PENDING, error=error.message, retry_s=UNSENT_PAUSE_S, is_sent=False)
    return _judge_error(failure, ATTEMPTS_MAX)


def _plan_retry(attempt_number: int, error: str, status: int | None) -> DeliveryOutcome:
    if attempt_number >= ATTEMPTS_MAX:
        return DeliveryOutcome(state=WebhookState.FAILED, status=status, error=error)
    pause_s = PAUSES_S[attempt_number - 1]
    return DeliveryOutcome(state=WebhookState.PENDING, status=status, error=error, retry_s=pause_s)
