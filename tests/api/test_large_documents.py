"""What a frontend decodes on its event loop of large bodies that are not for models, from known and unknown callers."""

from __future__ import annotations

import io
import json

import aiohttp
import pytest
import yaml

from corral.api.large_body_route import IN_PLACE_BYTES_MAX
from corral.gateway.request.request_body import VALUES_MAX
from corral.models import document_parser
from tests.support.decoding import record_decoded_sizes
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.nodes import join_node

JOBS = "/api/agent/jobs/execute"
ANSWERS = "/api/node/some/runs/some/batch/answers"
# Most of these ask for no key, or decode the body before they do.
ROUTES = ("/api/session", "/api/node/register", "/api/node/some/heartbeat", "/api/keys", "/api/fleet", JOBS, ANSWERS)
LISTS = b"[]," * (VALUES_MAX + 1)
FLEET = "models:\n" + "".join(
    f"- name: chat-{number}\n  backend: fake\n  description: {'words ' * 20}\n" for number in range(100)
)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return record_decoded_sizes(monkeypatch)


async def _post(
    frontend: RunningFrontend, path: str, body: bytes, key: str = "", content_type: str = "application/json"
) -> tuple[int, str]:
    headers = {"content-type": content_type} | ({"authorization": f"Bearer {key}"} if key else {})
    sending = aiohttp.ClientSession(headers=headers)
    async with sending as session, session.post(f"{frontend.url}{path}", data=io.BytesIO(body)) as answer:
        return answer.status, await answer.text()


@pytest.mark.behaviour("GW-235")
@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b'{"a":[' + LISTS + b"0]}", "values"),
        (b"[" + LISTS + b"0]", "values"),
        (b'{"a":[' + LISTS + b"0", "JSON"),
        (b'{"a":1,"a":1,"b":[' + LISTS + b"0]}", "JSON"),
        (b"\xef\xbb\xbf[" + LISTS + b"0]", "JSON"),
        (("[" + "[]," * VALUES_MAX + "0]").encode("utf-16-be"), "JSON"),
    ],
    ids=["object", "array", "without end", "name twice", "byte order mark", "utf-16"],
)
async def test_large_body_with_many_values_is_refused_before_it_is_decoded(
    frontend: RunningFrontend, decoded: list[int], body: bytes, word: str
) -> None:
    for path in ROUTES:
        status, problem = await _post(frontend, path, body)
        assert (status, word in problem) == (400, True), (path, problem)
    assert len(body) not in decoded


@pytest.mark.behaviour("GW-235")
async def test_very_large_body_of_an_unknown_caller_is_not_decoded(
    frontend: RunningFrontend, decoded: list[int]
) -> None:
    node = await join_node(frontend)
    body = json.dumps({"task_id": "some", "images": ["A" * 2 * IN_PLACE_BYTES_MAX]}).encode()
    assert (await _post(frontend, JOBS, body))[0] == 401
    assert (await _post(frontend, ANSWERS.replace("some", node.id, 1), body, key="cn_wrong"))[0] in (401, 403)
    assert (await _post(frontend, ANSWERS, body, key=ADMIN_KEY))[0] == 404
    assert len(body) not in decoded
    assert frontend.core.api_deps.compute.pid is None


@pytest.mark.behaviour("GW-235")
async def test_very_large_bodies_of_jobs_and_batches_are_decoded_in_another_process(
    frontend: RunningFrontend, decoded: list[int]
) -> None:
    node, long_text = await join_node(frontend), "A" * 2 * IN_PLACE_BYTES_MAX
    job = json.dumps({"task_id": "some", "images": [f"data:image/png;base64,{long_text}"]}).encode()
    answers = json.dumps(
        {"boot_id": node.boot_id, "job_id": "j", "from_byte": 0, "to_byte": 1, "to_line": 1, "output": long_text}
    ).encode()
    # As with a small body: the task and the run do not exist.
    for path, body, key in (
        (JOBS, job, ADMIN_KEY),
        (f"/api/node/{node.id}/runs/{node.id}/batch/answers", answers, node.credential),
    ):
        small = body.replace(long_text.encode(), b"")
        statuses = [(await _post(frontend, path, sent, key))[0] for sent in (small, body)]
        assert statuses[0] == statuses[1] != 400, statuses
    assert not {len(job), len(answers)} & set(decoded)
    assert frontend.core.api_deps.compute.pid is not None


@pytest.mark.behaviour("GW-235")
@pytest.mark.parametrize("content_type", ["application/yaml", "application/json"])
async def test_large_document_is_parsed_in_another_process(
    frontend: RunningFrontend, decoded: list[int], content_type: str
) -> None:
    body = FLEET.encode()
    if content_type == "application/json":
        body = json.dumps(yaml.safe_load(FLEET)).encode()
    assert len(body) > document_parser.IN_PLACE_BYTES_MAX
    status, changes = await _post(frontend, "/api/fleet?plan=true", body, ADMIN_KEY, content_type)
    assert len(body) not in decoded
    assert status == 200, changes
    assert len(json.loads(changes)["steps"]) == 100


async def test_error_in_a_large_document_is_reported_as_in_a_small_one(frontend: RunningFrontend) -> None:
    for text in ("a: b: c", FLEET + "a: b: c"):
        status, problem = await _post(frontend, "/api/fleet", text.encode(), ADMIN_KEY, "application/yaml")
        lines = text.count("\n") + 1
        assert (status, f"in line {lines}" in problem, "bad_document" in problem) == (400, True, True), problem
