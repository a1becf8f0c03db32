"""One line for each request, in a logger of its own."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from corral.adapters.system import SystemIdGenerator
from corral.app.logs import configure_access_log
from corral.domain.usage import ErrorOrigin
from corral.insight.access_log import LOGGER, AccessLog, AccessLogStyle
from corral.insight.request_monitor import RequestMonitor, RequestMonitorOptions
from tests.insight.records import HandClock, SmallFleet, record


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logger = logging.getLogger(LOGGER)
    before = logger.handlers[:], logger.propagate, logger.level
    configure_access_log(AccessLogStyle.TEXT, stream=stream)
    yield stream
    logger.handlers[:], logger.propagate, logger.level = before[0], before[1], before[2]


@pytest.mark.behaviour("GW-183")
def test_line_of_json_has_what_is_known_of_the_request(lines: io.StringIO) -> None:
    AccessLog(AccessLogStyle.JSON).on_requests_ended(record(traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01"))
    entry = json.loads(lines.getvalue())
    assert entry["at"] == "2026-09-21T14:13:20.000+00:00"
    assert (entry["request_id"], entry["key_id"], entry["model"]) == ("request-1", "key-1", "chat")
    assert (entry["status"], entry["queue_ms"], entry["first_byte_ms"], entry["total_ms"]) == (200, 10.0, 100.0, 2100.0)
    assert (entry["prompt_tokens"], entry["completion_tokens"]) == (30, 200)
    assert entry["traceparent"].startswith("00-1111")


@pytest.mark.behaviour("GW-183")
def test_line_of_text_is_read_by_people(lines: io.StringIO) -> None:
    AccessLog(AccessLogStyle.TEXT).on_requests_ended(record())
    AccessLog(AccessLogStyle.TEXT).on_requests_ended(
        record(
            status=502,
            origin=ErrorOrigin.ENGINE,
            error_code="engine_failed",
            first_byte_s=None,
            prompt_tokens=None,
            completion_tokens=None,
            attempts=3,
        )
    )
    well, badly = lines.getvalue().splitlines()
    assert well == (
        "2026-09-21T14:13:20.000+00:00 chat chat 200 total=2100.0ms first=100.0ms queue=10.0ms tokens=30+200 "
        "node=node-1 key=key-1 id=request-1"
    )
    assert " 502 engine_failed(engine) " in badly
    assert " attempts=3 " in badly


@pytest.mark.behaviour("GW-183")
@pytest.mark.parametrize("style", [AccessLogStyle.TEXT, AccessLogStyle.JSON])
def test_client_input_cannot_start_a_log_line(lines: io.StringIO, style: AccessLogStyle) -> None:
    AccessLog(style).on_requests_ended(record(request_id="a\nb", model="m\r\n2026 chat", node_name="n\x1b[2J o"))
    assert len(lines.getvalue().splitlines()) == 1
    assert "\x1b" not in lines.getvalue()


@pytest.mark.behaviour("GW-183")
def test_access_log_that_is_off_has_no_listener() -> None:
    def listeners(style: AccessLogStyle) -> list[str]:
        insight = RequestMonitor(
            RequestMonitorOptions(access_log=style), SmallFleet(), HandClock(), SystemIdGenerator()
        )
        return [type(listener).__name__ for listener in insight.listeners]

    assert listeners(AccessLogStyle.OFF) == ["RequestTally"]
    assert listeners(AccessLogStyle.TEXT) == ["RequestTally", "AccessLog"]


def test_access_log_lines_are_not_repeated_by_other_loggers(lines: io.StringIO) -> None:
    others = io.StringIO()
    handler = logging.StreamHandler(others)
    logging.getLogger().addHandler(handler)
    try:
        AccessLog(AccessLogStyle.TEXT).on_requests_ended(record())
    finally:
        logging.getLogger().removeHandler(handler)
    assert lines.getvalue()
    assert not others.getvalue()
