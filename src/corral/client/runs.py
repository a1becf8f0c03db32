"""Calls about runs: list and show them, follow their traces, cancel them, and decide about their tool calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote

import aiohttp

from corral.client.events import CONNECT_LIMIT_S, FIRST_PAUSE_S, IDLE_LIMIT_S, PAUSE_MAX_S, SseParser
from corral.client.transport import ApiRequest, ApiTransport, make_error_from_response, make_owner_parameters
from corral.domain.errors import Unavailable
from corral.domain.run import is_run_end
from corral.wire.runs import CallDecisionIn, RunEventOut, RunListOut, RunOut, RunTraceOut

# What a stream sends beside entries: when it begins, and when nothing has happened for a while.
SIGNS_OF_LIFE = frozenset({"hello", "still"})
# How soon a run is read again whose trace has ended, and how often: its frontend ends it a moment later.
END_POLL_S = 0.2
END_POLLS_MAX = 150


class RunCalls:
    """Client-side calls of the HTTP API about runs, such as turns of LLM agents."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(
        self, *, state: str = "", kind: str = "", limit: int = 50, before: str = "", all_users: bool = False
    ) -> RunListOut:
        given = {"state": state, "kind": kind, "limit": str(limit), "before": before}
        parameters = {name: value for name, value in given.items() if value} | make_owner_parameters(
            all_users=all_users
        )
        call = ApiRequest(method="GET", path="/api/runs", parameters=parameters)
        return await self._transport.fetch(call, RunListOut)

    async def get(self, run_id: str, *, all_users: bool = False) -> RunOut:
        call = ApiRequest(
            method="GET", path=_format_path(run_id), parameters=make_owner_parameters(all_users=all_users)
        )
        return await self._transport.fetch(call, RunOut)

    async def read_trace(self, run_id: str, after: int = 0, *, all_users: bool = False) -> RunTraceOut:
        parameters = {"after": str(after)} | make_owner_parameters(all_users=all_users)
        call = ApiRequest(method="GET", path=_format_path(run_id, "/trace"), parameters=parameters)
        return await self._transport.fetch(call, RunTraceOut)

    async def cancel(self, run_id: str, *, all_users: bool = False) -> RunOut:
        path, parameters = _format_path(run_id, "/cancel"), make_owner_parameters(all_users=all_users)
        return await self._transport.fetch(ApiRequest(method="POST", path=path, parameters=parameters), RunOut)

    async def decide(self, run_id: str, call_id: str, *, approved: bool, reason: str = "") -> RunOut:
        """Approve or refuse a tool call that waits for a person."""
        path = _format_path(run_id, f"/calls/{quote(call_id, safe='')}")
        body = CallDecisionIn(approved=approved, reason=reason)
        return await self._transport.fetch(ApiRequest(method="POST", path=path, body=body), RunOut)

    async def follow(
        self, run_id: str, after: int = 0, *, all_users: bool = False
    ) -> AsyncGenerator[RunEventOut, None]:
        """Yield the entries of a run's trace until the run has ended, over restarts of frontends and over workers that
        were lost. The first connection must succeed."""
        was_connected, pause_s = False, FIRST_PAUSE_S
        while True:
            try:
                async with aclosing(self._read_stream(run_id, after, all_users=all_users)) as events:
                    async for event in events:
                        was_connected, pause_s = True, FIRST_PAUSE_S
                        if event is None:
                            continue
                        after = event.seq
                        yield event
                        if is_run_end(event.type, event.data):
                            await self._wait_until_ended(run_id, all_users=all_users)
                            return
            except (aiohttp.ClientError, TimeoutError, Unavailable) as error:
                if not was_connected:
                    raise self._transport.make_unreachable_error(error) from error
            # The stream of a run that has ended otherwise ends without the last entry.
            if (await self.get(run_id, all_users=all_users)).finished_at is not None:
                async for event in self._read_rest(run_id, after, all_users=all_users):
                    yield event
                return
            await self._transport.clock.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    async def _wait_until_ended(self, run_id: str, *, all_users: bool) -> None:
        """Wait until a run has ended whose trace has; for a limited time: there may be no frontend to end it."""
        for _ in range(END_POLLS_MAX):
            if (await self.get(run_id, all_users=all_users)).finished_at is not None:
                return
            await self._transport.clock.sleep(END_POLL_S)

    async def _read_rest(self, run_id: str, after: int, *, all_users: bool) -> AsyncGenerator[RunEventOut, None]:
        has_more = True
        while has_more:
            trace = await self.read_trace(run_id, after, all_users=all_users)
            for event in trace.events:
                after = event.seq
                yield event
            has_more = trace.has_more and bool(trace.events)

    async def _read_stream(
        self, run_id: str, after: int, *, all_users: bool
    ) -> AsyncGenerator[RunEventOut | None, None]:
        """Yield the entries of one connection, and None for a sign of life."""
        async with self._transport.session.get(
            self._transport.url + _format_path(run_id, "/events"),
            params=make_owner_parameters(all_users=all_users),
            headers=self._transport.make_headers() | {"Accept": "text/event-stream", "Last-Event-ID": str(after)},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT_S, sock_read=IDLE_LIMIT_S),
            allow_redirects=False,
        ) as response:
            if response.status != 200:
                raise make_error_from_response(response.status, await response.read(), origin=self._transport.url)
            parser = SseParser()
            async for chunk in response.content.iter_any():
                for frame in parser.feed(chunk):
                    is_entry = frame.event not in SIGNS_OF_LIFE
                    yield RunEventOut.model_validate_json(frame.data) if is_entry else None


def _format_path(run_id: str, rest: str = "") -> str:
    return f"/api/runs/{quote(run_id, safe='')}{rest}"
