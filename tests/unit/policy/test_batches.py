"""Lines of a batch's input: which are requests, and what is wrong with the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.policy.batches import (
    CUSTOM_ID_MAX,
    FAULTS_MAX,
    LINE_BYTES_MAX,
    LINES_MAX,
    BatchInputChecker,
    BatchLineFault,
    BatchLineRequest,
    parse_line,
    render_answer,
)

ENDPOINT = "/v1/chat/completions"
LINE: dict[str, Any] = {"custom_id": "a", "method": "POST", "url": ENDPOINT, "body": {"model": "m"}}


def test_line_with_all_fields_is_a_request() -> None:
    assert parse_line(json.dumps(LINE).encode(), ENDPOINT, 1) == BatchLineRequest(custom_id="a", body={"model": "m"})


@pytest.mark.behaviour("BATCH-9")
@pytest.mark.parametrize(
    ("line", "code", "param"),
    [
        (b"{", "invalid_json_line", None),
        (b"[]", "invalid_json_line", None),
        (b"\xff", "invalid_json_line", None),
        (b"[" * 100_000, "invalid_json_line", None),
        (b" " * (LINE_BYTES_MAX + 1), "line_too_long", None),
        ({"custom_id": ""}, "missing_required_parameter", "custom_id"),
        ({"custom_id": 7}, "missing_required_parameter", "custom_id"),
        ({"custom_id": "x" * (CUSTOM_ID_MAX + 1)}, "invalid_custom_id", "custom_id"),
        ({"method": "GET"}, "invalid_method", "method"),
        ({"url": "/v1/embeddings"}, "mismatched_url", "url"),
        ({"body": None}, "missing_required_parameter", "body"),
        ({"body": {}}, "missing_required_parameter", "body.model"),
        ({"body": {"model": "m", "stream": True}}, "invalid_request", "body.stream"),
    ],
)
def test_wrong_line_is_a_fault_with_code_and_line(line: Any, code: str, param: str | None) -> None:
    sent = line if isinstance(line, bytes) else json.dumps(LINE | line).encode()
    fault = parse_line(sent, ENDPOINT, 5)
    assert isinstance(fault, BatchLineFault)
    assert (fault.code, fault.param, fault.line) == (code, param, 5)
    assert fault.message.endswith(".")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_fault(line: bytes) -> None:
    assert isinstance(parse_line(line, ENDPOINT, 1), BatchLineFault | BatchLineRequest)


def test_custom_id_that_is_used_twice_is_a_fault_of_the_second_line() -> None:
    checker = BatchInputChecker(ENDPOINT)
    for number in (1, 2):
        checker.check_line(json.dumps(LINE).encode(), number)
    assert [(fault.code, fault.line) for fault in checker.faults] == [("duplicate_custom_id", 2)]


def test_input_without_lines_is_a_fault() -> None:
    checker = BatchInputChecker(ENDPOINT)
    checker.finish()
    assert [fault.code for fault in checker.faults] == ["empty_file"]


def test_input_with_too_many_lines_is_one_fault() -> None:
    checker = BatchInputChecker(ENDPOINT)
    for number in range(LINES_MAX + 2):
        checker.check_line(json.dumps(LINE | {"custom_id": str(number)}).encode(), number + 1)
    assert [fault.code for fault in checker.faults] == ["too_many_lines"]


def test_checker_is_full_after_so_many_faults() -> None:
    checker = BatchInputChecker(ENDPOINT)
    for number in range(FAULTS_MAX):
        assert not checker.is_full
        checker.check_line(b"{", number + 1)
    assert checker.is_full


def test_rendered_answer_is_one_line_of_ascii() -> None:
    line = render_answer("1", "ä", 200, "req", {"text": "ö\n\ud800"})
    assert line.count(b"\n") == 1
    assert line.isascii()
    assert json.loads(line)["response"] == {"status_code": 200, "request_id": "req", "body": {"text": "ö\n\ud800"}}
