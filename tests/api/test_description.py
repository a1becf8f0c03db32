"""The OpenAPI description: complete, and true of what the frontend answers to generated calls."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CheckContext
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from starlette.routing import Route

from corral.api.application import create_app
from corral.api.metrics import FrontendMetrics
from corral.api.openapi import INFERENCE_CALLS
from tests.api.operations import STREAMS, assert_envelope, described
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.nodes import join_node

EXAMPLES_PER_ROUTE = 12
ERRORS = {"400", "401", "403", "404", "409", "413", "422", "503"}
# Would take away the node that the other routes are called with.
REMOVING = ("DELETE", "/api/nodes/{node}")


def _operations() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in described()["paths"].items()
        for method, operation in methods.items()
    ]


@pytest.mark.behaviour("API-15")
def test_every_route_has_a_summary_a_description_a_tag_and_a_name_of_its_own() -> None:
    for what, operation in _operations():
        assert operation["summary"], what
        assert len(operation["description"].split()) >= 3, what
        assert operation["tags"], what
    names = [operation["operationId"] for _, operation in _operations()]
    assert len(names) == len(set(names))


@pytest.mark.behaviour("API-15")
def test_every_route_describes_its_success_and_every_error_with_the_one_envelope() -> None:
    for what, operation in _operations():
        answers = operation["responses"]
        assert set(answers) >= ERRORS, what
        # To be sent on is what some are called for.
        assert any(code.startswith(("2", "303")) for code in answers), what
        for code in ERRORS:
            schema = answers[code]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorOut"}, f"{what} {code}"
            assert answers[code]["description"].endswith("."), f"{what} {code}"


def test_every_described_inference_call_is_answered_by_a_route() -> None:
    routes = [route for route in create_app(None, FrontendMetrics()).routes if isinstance(route, Route)]
    answered = {(route.path, method) for route in routes for method in route.methods or ()}
    assert {(call.path, call.method.upper()) for call in INFERENCE_CALLS} <= answered


@pytest.mark.behaviour("API-15")
async def test_description_is_served_and_is_the_one_that_the_pages_are_made_from(frontend: RunningFrontend) -> None:
    status, served = await frontend.call("GET", "/openapi.json", key=None)
    assert status == 200
    assert served == described()


@pytest.mark.timeout(900)
async def test_generated_calls_are_answered_as_described_and_never_crash_a_frontend(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "fuzzed")
    statuses = await asyncio.to_thread(_call_everything, frontend.url, node.id, node.credential)
    assert {200, 201, 202, 204} & statuses
    assert {400, 404} <= statuses
    assert (await frontend.call("GET", "/api/nodes"))[0] == 200


def _call_everything(url: str, node_id: str, credential: str) -> set[int]:
    statuses: set[int] = set()
    schema = schemathesis.openapi.from_dict(deepcopy(described())).exclude(path=list(STREAMS))
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        is_node_route = operation.path.startswith("/api/node/") and "{" in operation.path
        headers = {"Authorization": f"Bearer {credential if is_node_route else ADMIN_KEY}"}

        @settings(
            max_examples=EXAMPLES_PER_ROUTE,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def call(case: Any) -> None:
            if (case.method, case.operation.path) != REMOVING:
                for name in {"node", "node_id"} & set(case.path_parameters or {}):
                    case.path_parameters[name] = node_id
            answer = case.call(base_url=url, headers=headers, timeout=120)  # noqa: B023 - called before the next round
            statuses.add(answer.status_code)
            case.validate_response(answer, checks=[_is_no_crash, response_schema_conformance, content_type_conformance])

        call()
    return statuses


def _is_no_crash(context: CheckContext, response: Any, case: Any) -> None:
    """503 is an answer: here the bus is away. Anything else from 500 up is a bug."""
    if response.status_code >= 400:
        assert_envelope(response.json())
    assert response.status_code < 500 or response.status_code == 503, response.text
