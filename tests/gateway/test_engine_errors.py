"""Errors of engines reach clients in the shape, and with the status, that official clients act on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.domain.usage import ErrorOrigin
from corral.policy.serving.response_check import BODY_BYTES_MAX, restate_error
from tests.gateway.scene import Records, ask
from tests.support.engines import MisbehavingEngine, make_json_script
from tests.support.frontends import RunningFrontend

PICTURE = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
CHOICES = "Field 'n': Value must be between 1 <= value <= 2, but got 3"


def error_of(code: object, message: str, kind: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, "type": kind}}).encode()


def restated(status: int, code: object, message: str, kind: str) -> tuple[int, dict[str, Any]]:
    status, body = restate_error(status, error_of(code, message, kind), "smol")
    return status, json.loads(body)["error"]


async def test_gateway_answers_400_when_the_engine_answers_500_to_a_picture(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records
) -> None:
    engine.answer = make_json_script(error_of(500, PICTURE, "server_error"), "500 Internal Server Error")
    answer = await ask(frontend)
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["type"]) == (400, "invalid_request_error")
    assert error["code"] == "image_input_not_supported"
    assert "chat does not take image input" in error["message"]
    record = await records.one()
    assert (record.status, record.origin) == (400, ErrorOrigin.CLIENT)


def test_engine_error_names_the_limit_when_n_is_above_it() -> None:
    status, error = restated(400, 400, CHOICES, "invalid_request_error")
    assert (status, error["param"], error["code"]) == (400, "n", "too_many_choices")
    assert "at most 2 choices at a time, and 3 were requested" in error["message"]


def test_engine_error_is_400_when_the_chat_template_rejects_the_messages() -> None:
    status, error = restated(500, 500, "Jinja Exception: roles must alternate", "server_error")
    assert (status, error["code"], error["type"]) == (400, "messages_not_accepted", "invalid_request_error")
    assert "roles must alternate" in error["message"]


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "exceed_context_size_error", "context_length_exceeded"),
        (400, "invalid_request_error", "engine_rejected_request"),
        (500, "server_error", "engine_error"),
        (501, "not_supported_error", "not_supported_error"),
    ],
)
def test_engine_error_code_is_a_text_when_the_engine_sends_a_number(status: int, kind: str, code: str) -> None:
    assert restated(status, status, "no", kind) == (
        status,
        {"param": None, "code": code, "message": "no", "type": kind},
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"Not Found",
        b"[1]",
        b'{"error": "busy"}',
        b'{"error": {"code": "busy",  "message": "x"}}',
        b'{"error": {"code": null,  "message": "x"}}',
        b"{" * 10_000,
        b'{"error": {"code": 400, "message": "' + b"x" * BODY_BYTES_MAX + b'"}}',
    ],
)
def test_engine_error_is_unchanged_when_it_has_another_form(body: bytes) -> None:
    assert restate_error(400, body, "smol") == (400, body)
