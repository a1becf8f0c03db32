"""One connection to the bus, from its first byte to its last. It never reconnects: `client.py` makes another one.

nats-py gives up for good when a token has run out or was revoked, and keeps its subscriptions to itself, so its own
reconnecting is switched off. A subscription is confirmed by a round trip; a refused one raises. Requests that are
under way fail at once when the connection ends.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import re
import ssl
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nacl.utils import random as random_bytes

from corral.adapters.nats.credentials import Credential
from corral.adapters.nats.library import Client, Feed, Msg, nats_errors
from corral.adapters.nats.reporter import Reporter, check_url, printable_url
from corral.bus.codec import HEADER_ROOM_BYTES, check_size
from corral.domain.errors import (
    BusUnavailable,
    CorralError,
    InvalidRequest,
    NodeUnreachable,
    NotAllowed,
    NotAuthenticated,
)

T = TypeVar("T")

CONNECT_TIMEOUT_S = 2
# Over all addresses, each tried twice.
OPEN_LIMIT_S = 10.0
ROUND_TRIP_LIMIT_S = 5.0
CLOSE_LIMIT_S = 1.0
# A machine that vanished without a word is noticed after three of these.
PING_INTERVAL_S = 10
# What may wait for a socket that does not drain; eight of the largest messages.
PENDING_OUT_BYTES = 8 * 1024 * 1024

ID_HEADER = "Corral-Id"
_NO_RESPONDERS = "503"
_REFUSED = re.compile(r'Permissions Violation for (Publish|Subscription)[^"]*"([^"]+)"', re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the bus is and how to reach it. Addresses may hold a password and stay out of `repr`."""

    urls: tuple[str, ...] = field(repr=False)
    client_name: str
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        for url in self.urls:
            check_url(url)
        if not self.urls:
            raise InvalidRequest("An address of NATS is needed.", hint="For example nats://127.0.0.1:4222.")

    @property
    def printable(self) -> str:
        return ", ".join(printable_url(url) for url in self.urls)


class Connection:
    def __init__(
        self, endpoint: Endpoint, credential: Credential, *, reporter: Reporter, on_lost: Callable[[], None]
    ) -> None:
        self.credential = credential
        self._endpoint = endpoint
        self._reporter = reporter
        self._on_lost = on_lost
        self._client = _Client(must_encrypt=endpoint.tls is not None)
        self._is_in_use = False
        self._is_closed = False
        self._working: set[asyncio.Task[Any]] = set()
        self._trouble: Exception | None = None
        self._refused: set[str] = set()
        self._waiting: dict[str, tuple[str, asyncio.Future[Msg]]] = {}
        # Replies to the connection before this one must not meet the requests of this one.
        self._replies = f"{credential.inbox}.{random_bytes(8).hex()}"
        self._numbers = itertools.count(1)
        self._owed = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def is_open(self) -> bool:
        return self._client.is_connected and not self._is_closed

    async def open(self) -> None:
        """Connect and listen on the inbox; one sentence says why it did not work."""
        try:
            async with asyncio.timeout(OPEN_LIMIT_S):
                await self._connect()
            await self.subscribe(f"{self._replies}.*", self._answered)
            self._is_in_use = True
        except (OSError, nats_errors.Error, TimeoutError) as error:
            await self.close()
            _raise_if_cancelled()
            raise self._explained(error) from error
        except BaseException:
            await asyncio.shield(self.close())
            raise

    async def drain(self, feed: Feed) -> None:
        """Take the last messages of a subscription; a connection that is gone has no more."""
        with contextlib.suppress(BusUnavailable), _unavailable_if_broken(self._endpoint):
            drain: Callable[[], Coroutine[Any, Any, None]] = feed.drain
            await self._unless_closed(drain())

    async def subscribe(self, subject: str, take: Callable[[Msg], None]) -> Feed:
        """Have every message on the subject given to `take`; the server has agreed when this returns."""

        async def on_message(message: Msg) -> None:
            take(message)

        self._refused.discard(subject.lower())
        with _unavailable_if_broken(self._endpoint):
            feed = await self._client.subscribe(subject, cb=on_message)
            await self._round_trip()
            if subject.lower() in self._refused:
                await feed.unsubscribe()
                raise NotAllowed(
                    f"The bus refuses a subscription to {subject}: this credential does not allow it.",
                    details={"subject": subject},
                )
        return feed

    async def publish(self, subject: str, data: bytes, *, reply: str = "", message_id: str = "") -> None:
        headers = {ID_HEADER: message_id} if message_id else None
        check_size(data, subject=subject, limit_bytes=self._client.max_payload - HEADER_ROOM_BYTES)
        with _unavailable_if_broken(self._endpoint):
            await self._client.publish(subject, data, reply=reply, headers=headers)

    async def request(self, subject: str, data: bytes, *, timeout_s: float, message_id: str = "") -> bytes:
        """The answer's bytes; see `ports.bus.Bus.request` for what goes wrong and how."""
        token = f"{self._replies}.{next(self._numbers)}"
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._waiting[token] = (subject, answer)
        self.owe()
        try:
            await self.publish(subject, data, reply=token, message_id=message_id)
            async with asyncio.timeout(timeout_s):
                message = await answer
        except TimeoutError as error:
            raise NodeUnreachable(
                f"Nobody answered on {subject} within {timeout_s:g} s.",
                code="node_timeout",
                hint="The machine is on the bus and does not answer: it may be overloaded or hang.",
            ) from error
        finally:
            del self._waiting[token]
            self.settle()
        if message.headers and message.headers.get("Status") == _NO_RESPONDERS:
            raise NodeUnreachable(f"Nobody listens on {subject}.", hint="The node's worker is not on the bus.")
        return message.data

    def owe(self) -> None:
        """Something that came or went over this connection is not finished yet."""
        self._owed += 1
        self._quiet.clear()

    def settle(self) -> None:
        self._owed -= 1
        assert self._owed >= 0, "more was settled on a connection than was owed"
        if self._owed == 0:
            self._quiet.set()

    async def retire(self, limit_s: float) -> None:
        """Close once nothing is owed any more, or after the limit."""
        try:
            async with asyncio.timeout(limit_s):
                await self._unless_closed(self._quiet.wait())
                await self._round_trip()
        except (TimeoutError, BusUnavailable, nats_errors.Error, OSError):
            return
        finally:
            await asyncio.shield(self.close())

    async def close(self) -> None:
        self._is_in_use = False
        try:
            # Also when it never got through: a socket that is half open still wants closing. After a TLS handshake
            # that failed, nats-py would wait for an end that never comes.
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await self._client.close()
        except TimeoutError:
            return
        finally:
            self._mark_closed()

    async def _connect(self) -> None:
        await self._client.connect(
            servers=list(self._endpoint.urls),
            name=self._endpoint.client_name,
            error_cb=self._on_error,
            closed_cb=self._on_client_closed,
            signature_cb=lambda nonce: base64.b64encode(self.credential.sign(nonce.encode())),
            user_jwt_cb=self.credential.token.encode,
            tls=self._endpoint.tls,
            allow_reconnect=False,
            # Not more than one, and not zero: zero means "for ever" to nats-py.
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_TIMEOUT_S,
            ping_interval=PING_INTERVAL_S,
            pending_size=PENDING_OUT_BYTES,
        )

    async def _round_trip(self) -> None:
        await self._unless_closed(self._client.flush(timeout=int(ROUND_TRIP_LIMIT_S)))

    async def _unless_closed(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of the work, or `BusUnavailable` as soon as the connection ends.

        The work is shielded: nats-py breaks the connection when the waiter for a PONG was cancelled.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._worked)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise _no_connection(self._endpoint) from None
            raise

    def _worked(self, task: asyncio.Task[Any]) -> None:
        self._working.discard(task)
        if not task.cancelled():
            # Marks it as seen: the caller may be gone.
            task.exception()

    def _answered(self, message: Msg) -> None:
        _, answer = self._waiting.get(message.subject, (None, None))
        if answer is not None and not answer.done():
            answer.set_result(message)

    async def _on_error(self, error: Exception) -> None:
        self._trouble = error
        refused = _REFUSED.search(str(error))
        if refused is None:
            # What ends the connection is told by whoever meets the end.
            return
        # nats-py hands errors on in small letters.
        action, subject = refused.group(1).lower(), refused.group(2).lower()
        if action == "subscription":
            self._refused.add(subject)
            return
        self._reporter.warn(_refused_message(subject).message)
        for asked, answer in self._waiting.values():
            if asked.lower() == subject and not answer.done():
                answer.set_exception(_refused_message(asked))

    async def _on_client_closed(self) -> None:
        was_in_use, self._is_in_use = self._is_in_use, False
        self._mark_closed()
        if was_in_use:
            reason = str(self._client.last_error or "the server closed it").removeprefix("nats: ")
            self._reporter.warn(f"The connection to NATS at {self._endpoint.printable} ended: {reason}.")
            self._on_lost()

    def _mark_closed(self) -> None:
        self._is_closed = True
        for task in list(self._working):
            task.cancel()
        for _, answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(_no_connection(self._endpoint))

    def _explained(self, error: Exception) -> CorralError:
        # "No servers available" hides why; the last error of the attempt tells.
        cause = self._trouble if isinstance(error, nats_errors.NoServersError) and self._trouble else error
        where = self._endpoint.printable
        text = str(cause).removeprefix("nats: ").strip("'")
        if "authorization" in text.lower() or "authentication" in text.lower():
            return NotAuthenticated(
                f"NATS at {where} refuses this credential: {text}.",
                hint="It may have run out or been revoked, or belong to another cluster.",
            )
        if isinstance(cause, TimeoutError):
            text = "it does not answer"
        elif isinstance(cause, ssl.SSLError):
            text = f"TLS failed, {cause.reason or cause.strerror}"
        elif isinstance(cause, OSError):
            text = cause.strerror or type(cause).__name__
        return BusUnavailable(f"NATS at {where} cannot be reached: {text}.", hint="Is nats-server running there?")


class _Client(Client):
    """nats-py's client, which would speak in clear text to a server that does not ask for TLS."""

    def __init__(self, *, must_encrypt: bool) -> None:
        super().__init__()
        self._must_encrypt = must_encrypt

    def _connect_command(self) -> bytes:
        if self._must_encrypt and not self._server_info.get("tls_required"):
            raise nats_errors.Error("TLS is configured and the server does not offer it")
        return super()._connect_command()


@contextlib.contextmanager
def _unavailable_if_broken(endpoint: Endpoint) -> Iterator[None]:
    """nats-py's own errors become `BusUnavailable`."""
    try:
        yield
    except (nats_errors.Error, OSError, TimeoutError) as error:
        raise _no_connection(endpoint) from error


def _raise_if_cancelled() -> None:
    """Python 3.11's `wait_for`, which nats-py uses, loses a cancellation that meets a failure."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _refused_message(subject: str) -> NotAllowed:
    return NotAllowed(
        f"The bus refuses a message to {subject}: this credential does not allow it.", details={"subject": subject}
    )


def _no_connection(endpoint: Endpoint) -> BusUnavailable:
    return BusUnavailable(
        f"There is no connection to NATS at {endpoint.printable}.",
        hint="It is being made again in the background; try again.",
    )
