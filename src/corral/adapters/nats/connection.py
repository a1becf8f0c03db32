"""Carries one connection to the bus, from its first byte to its last. It never reconnects: `client.py` makes a new one.

nats-py gives up for good when a token has expired or was revoked, and keeps its subscriptions to itself, so its own
reconnecting is switched off. A subscription is confirmed by a round trip; a refused one raises. Requests that are under
way fail at once when the connection ends. Files for TLS are checked before anything connects. Each warning is logged
once, because an outage repeats one sentence at every attempt.
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
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import structlog
from nacl.utils import random as random_bytes

from corral.adapters.nats.credentials import NatsCredential
from corral.adapters.nats.nats_py import Client, Feed, Msg, nats_errors
from corral.bus.codec import HEADER_ROOM_BYTES, check_size
from corral.domain.errors import (
    BusUnavailable,
    CorralError,
    InvalidRequest,
    NodeUnreachable,
    NotAllowed,
    NotAuthenticated,
)

log = structlog.get_logger(__name__)

T = TypeVar("T")

CONNECT_TIMEOUT_S = 2

# The limit over all addresses, each tried twice.
OPEN_LIMIT_S = 10.0
ROUND_TRIP_LIMIT_S = 5.0
CLOSE_LIMIT_S = 1.0

# A machine that vanished is noticed after three of these pings.
PING_INTERVAL_S = 10

# The bytes that may wait for a socket that does not drain; eight of the largest messages.
PENDING_OUT_BYTES = 8 * 1024 * 1024

ID_HEADER = "Corral-Id"
_NO_RESPONDERS = "503"
_REFUSED = re.compile(r'Permissions Violation for (Publish|Subscription)[^"]*"([^"]+)"', re.IGNORECASE)

CA_VARIABLE = "CORRAL_NATS_TLS_CA"
CERT_VARIABLE = "CORRAL_NATS_TLS_CERT"
KEY_VARIABLE = "CORRAL_NATS_TLS_KEY"

_SCHEMES = ("nats", "tls", "ws", "wss")

# Sentences name subjects, so their number is not bounded by itself.
MAX_REMEMBERED = 256


class BusWarningLog:
    """Logs each warning of a NATS client once, until `forget`: an outage repeats one sentence at every attempt."""

    def __init__(self, client_name: str) -> None:
        self._client_name = client_name
        self._logged: set[str] = set()

    def warn(self, sentence: str) -> None:
        if sentence in self._logged:
            return
        if len(self._logged) >= MAX_REMEMBERED:
            self._logged.clear()
        self._logged.add(sentence)
        log.warning("bus", client=self._client_name, problem=sentence)

    def forget(self) -> None:
        """Forget the logged warnings after a success, so that the next outage is logged again."""
        self._logged.clear()


def check_url(url: str) -> None:
    """Raise `InvalidRequest` if the URL is not the address of a NATS server. The message does not repeat its
    password."""
    text = url.strip()
    parts = urlsplit(text if "//" in text else f"nats://{text}")
    try:
        is_right = parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_right = False
    if not is_right:
        raise InvalidRequest(
            "This is not an address of a NATS server.", hint="It looks like nats://host:4222 or tls://host:4222."
        )


def strip_url(url: str) -> str:
    """Return the address without user, password, path and query, so that it may be logged."""
    text = url.strip()
    parts = urlsplit(text if "//" in text else f"nats://{text}")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def make_client_tls(*, tls_ca: Path | None, tls_cert: Path | None, tls_key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context for these files, or None without any. Raises `InvalidRequest` that names the wrong
    variable."""
    if (tls_cert is None) != (tls_key is None):
        given, missing = (CERT_VARIABLE, KEY_VARIABLE) if tls_cert else (KEY_VARIABLE, CERT_VARIABLE)
        raise InvalidRequest(f"{given} is set and {missing} is not.", hint="Set both of them, or none.")
    for variable, path in ((CA_VARIABLE, tls_ca), (CERT_VARIABLE, tls_cert), (KEY_VARIABLE, tls_key)):
        if path is not None and not path.is_file():
            raise InvalidRequest(f"{variable} names a file that does not exist: {path}.")
    if tls_ca is None and tls_cert is None:
        return None
    context = _load(CA_VARIABLE, tls_ca)
    if tls_cert is not None and tls_key is not None:
        try:
            context.load_cert_chain(tls_cert, tls_key)
        except (ssl.SSLError, OSError) as error:
            raise InvalidRequest(
                f"{CERT_VARIABLE} and {KEY_VARIABLE} cannot be used: {_describe_reason(error)}.",
                hint="Both must be PEM files, and the key must belong to the certificate.",
            ) from error
    return context


def _load(variable: str, ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (ssl.SSLError, OSError) as error:
        raise InvalidRequest(
            f"{variable} cannot be used: {_describe_reason(error)}.", hint="A PEM file is expected."
        ) from error


def _describe_reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsEndpoint:
    """Says where NATS is and how to reach it. Addresses may hold a password and stay out of `repr`."""

    urls: tuple[str, ...] = field(repr=False)
    client_name: str
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        for url in self.urls:
            check_url(url)
        if not self.urls:
            raise InvalidRequest("The address of NATS is missing.", hint="For example nats://127.0.0.1:4222.")

    @property
    def printable(self) -> str:
        return ", ".join(strip_url(url) for url in self.urls)


class NatsConnection:
    """Carries one connection of a frontend or worker to NATS; it never reconnects."""

    def __init__(
        self,
        endpoint: NatsEndpoint,
        credential: NatsCredential,
        *,
        reporter: BusWarningLog,
        on_lost: Callable[[], None],
    ) -> None:
        self.credential = credential
        self._endpoint = endpoint
        self._reporter = reporter
        self._on_lost = on_lost
        self._client = _TlsEnforcingClient(must_encrypt=endpoint.tls is not None)
        self._is_in_use = False
        self._is_closed = False
        self._handler_tasks: set[asyncio.Task[Any]] = set()
        self._last_error: Exception | None = None
        self._refused_subjects: set[str] = set()
        self._waiting_replies: dict[str, tuple[str, asyncio.Future[Msg]]] = {}
        # Replies to the previous connection must not reach the requests of this one.
        self._replies = f"{credential.inbox}.{random_bytes(8).hex()}"
        self._numbers = itertools.count(1)
        self._pending_count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_open(self) -> bool:
        return self._client.is_connected and not self._is_closed

    async def open(self) -> None:
        """Connect and subscribe to the inbox. Raises `BusUnavailable` with the reason if that fails."""
        try:
            async with asyncio.timeout(OPEN_LIMIT_S):
                await self._connect()
            await self.subscribe(f"{self._replies}.*", self._on_reply)
            self._is_in_use = True
        except (OSError, nats_errors.Error, TimeoutError) as error:
            await self.close()
            _raise_if_cancelled()
            raise self._to_corral_error(error) from error
        except BaseException:
            await asyncio.shield(self.close())
            raise

    async def drain(self, feed: Feed) -> None:
        """Receive the last messages of a subscription; a closed connection has none."""
        with contextlib.suppress(BusUnavailable), _translate_errors(self._endpoint):
            drain: Callable[[], Coroutine[Any, Any, None]] = feed.drain
            await self._run_unless_closed(drain())

    async def subscribe(self, subject: str, take: Callable[[Msg], None]) -> Feed:
        """Have every message on the subject passed to `take`. The server has confirmed the subscription when this
        returns."""

        async def on_message(message: Msg) -> None:
            take(message)

        self._refused_subjects.discard(subject.lower())
        with _translate_errors(self._endpoint):
            feed = await self._client.subscribe(subject, cb=on_message)
            await self._round_trip()
            if subject.lower() in self._refused_subjects:
                await feed.unsubscribe()
                raise NotAllowed(
                    f"The bus refuses a subscription to {subject}: this credential does not allow it.",
                    details={"subject": subject},
                )
        return feed

    async def publish(self, subject: str, data: bytes, *, reply: str = "", message_id: str = "") -> None:
        headers = {ID_HEADER: message_id} if message_id else None
        check_size(data, subject=subject, limit_bytes=self._client.max_payload - HEADER_ROOM_BYTES)
        with _translate_errors(self._endpoint):
            await self._client.publish(subject, data, reply=reply, headers=headers)

    async def request(self, subject: str, data: bytes, *, timeout_s: float, message_id: str = "") -> bytes:
        """Return the bytes of the reply. Raises as `ports.bus.Bus.request` does."""
        token = f"{self._replies}.{next(self._numbers)}"
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._waiting_replies[token] = (subject, answer)
        self.add_pending()
        try:
            await self.publish(subject, data, reply=token, message_id=message_id)
            async with asyncio.timeout(timeout_s):
                message = await answer
        except TimeoutError as error:
            raise NodeUnreachable(
                f"No reply on {subject} within {timeout_s:g} s.",
                code="node_timeout",
                hint="The machine is on the bus but does not respond: it may be overloaded or hang.",
            ) from error
        finally:
            del self._waiting_replies[token]
            self.finish_pending()
        if message.headers and message.headers.get("Status") == _NO_RESPONDERS:
            raise NodeUnreachable(f"No subscriber listens on {subject}.", hint="The node's worker is not on the bus.")
        return message.data

    def add_pending(self) -> None:
        """Count a message on this connection whose handling has not finished yet."""
        self._pending_count += 1
        self._idle.clear()

    def finish_pending(self) -> None:
        self._pending_count -= 1
        assert self._pending_count >= 0, "more messages were settled than were pending on a connection"
        if self._pending_count == 0:
            self._idle.set()

    async def close_when_idle(self, limit_s: float) -> None:
        """Close the connection once no message is pending, or after the limit."""
        try:
            async with asyncio.timeout(limit_s):
                await self._run_unless_closed(self._idle.wait())
                await self._round_trip()
        except (TimeoutError, BusUnavailable, nats_errors.Error, OSError):
            return
        finally:
            await asyncio.shield(self.close())

    async def close(self) -> None:
        self._is_in_use = False
        try:
            # Also when the connection never opened: a half-open socket still has to be closed. After a TLS handshake
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
            # At most one attempt, and not zero, which means "for ever" to nats-py.
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_TIMEOUT_S,
            ping_interval=PING_INTERVAL_S,
            pending_size=PENDING_OUT_BYTES,
        )

    async def _round_trip(self) -> None:
        await self._run_unless_closed(self._client.flush(timeout=int(ROUND_TRIP_LIMIT_S)))

    async def _run_unless_closed(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the work, or raise `BusUnavailable` as soon as the connection ends.

        The work is shielded: nats-py breaks the connection when the waiter for a PONG was cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._handler_tasks.add(task)
        task.add_done_callback(self._on_work_done)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise _make_unavailable_error(self._endpoint) from None
            raise

    def _on_work_done(self, task: asyncio.Task[Any]) -> None:
        self._handler_tasks.discard(task)
        if not task.cancelled():
            # Marks the exception as retrieved, because the caller may be gone.
            task.exception()

    def _on_reply(self, message: Msg) -> None:
        _, answer = self._waiting_replies.get(message.subject, (None, None))
        if answer is not None and not answer.done():
            answer.set_result(message)

    async def _on_error(self, error: Exception) -> None:
        self._last_error = error
        refused = _REFUSED.search(str(error))
        if refused is None:
            # An error that ends the connection is reported by the code that notices the end.
            return
        # nats-py passes errors on in lower case.
        action, subject = refused.group(1).lower(), refused.group(2).lower()
        if action == "subscription":
            self._refused_subjects.add(subject)
            return
        self._reporter.warn(_make_refused_error(subject).message)
        for requested, answer in self._waiting_replies.values():
            if requested.lower() == subject and not answer.done():
                answer.set_exception(_make_refused_error(requested))

    async def _on_client_closed(self) -> None:
        was_in_use, self._is_in_use = self._is_in_use, False
        self._mark_closed()
        if was_in_use:
            reason = str(self._client.last_error or "the server closed it").removeprefix("nats: ")
            self._reporter.warn(f"The connection to NATS at {self._endpoint.printable} ended: {reason}.")
            self._on_lost()

    def _mark_closed(self) -> None:
        self._is_closed = True
        for task in list(self._handler_tasks):
            task.cancel()
        for _, answer in self._waiting_replies.values():
            if not answer.done():
                answer.set_exception(_make_unavailable_error(self._endpoint))

    def _to_corral_error(self, error: Exception) -> CorralError:
        # "No servers available" hides the cause, which is the last error of the attempt.
        cause = self._last_error if isinstance(error, nats_errors.NoServersError) and self._last_error else error
        where = self._endpoint.printable
        text = str(cause).removeprefix("nats: ").strip("'")
        if "authorization" in text.lower() or "authentication" in text.lower():
            return NotAuthenticated(
                f"NATS at {where} refuses this credential: {text}.",
                hint="It may have expired, been revoked, or belong to another cluster.",
            )
        if isinstance(cause, TimeoutError):
            text = "it does not respond"
        elif isinstance(cause, ssl.SSLError):
            text = f"TLS failed, {cause.reason or cause.strerror}"
        elif isinstance(cause, OSError):
            text = cause.strerror or type(cause).__name__
        return BusUnavailable(f"NATS at {where} cannot be reached: {text}.", hint="Is nats-server running there?")


class _TlsEnforcingClient(Client):
    """nats-py's client, with TLS enforced: the original would speak clear text to a server that does not offer TLS."""

    def __init__(self, *, must_encrypt: bool) -> None:
        super().__init__()
        self._must_encrypt = must_encrypt

    def _connect_command(self) -> bytes:
        if self._must_encrypt and not self._server_info.get("tls_required"):
            raise nats_errors.Error("TLS is configured and the server does not offer it")
        return super()._connect_command()


@contextlib.contextmanager
def _translate_errors(endpoint: NatsEndpoint) -> Iterator[None]:
    """Convert nats-py's own errors to `BusUnavailable`."""
    try:
        yield
    except (nats_errors.Error, OSError, TimeoutError) as error:
        raise _make_unavailable_error(endpoint) from error


def _raise_if_cancelled() -> None:
    """Raise a cancellation that Python 3.11's `wait_for`, which nats-py uses, loses when it meets a failure."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _make_refused_error(subject: str) -> NotAllowed:
    return NotAllowed(
        f"The bus refuses a message to {subject}: this credential does not allow it.", details={"subject": subject}
    )


def _make_unavailable_error(endpoint: NatsEndpoint) -> BusUnavailable:
    return BusUnavailable(
        f"There is no connection to NATS at {endpoint.printable}.",
        hint="It is being re-established in the background; try again.",
    )
