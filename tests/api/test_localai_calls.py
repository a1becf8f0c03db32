"""The calls that LocalAI's own page and tools make to read a cluster: none of them is refused."""

from __future__ import annotations

import pytest

from corral.models.gallery import ITEMS_MAX
from tests.support.frontends import RunningFrontend

CONTEXTS = "contexts=8192%2C16384%2C32768%2C65536%2C131072%2C262144"
CALLS = (
    "/api/backends/upgrades",
    "/api/backends/usecases",
    "/api/backends?items=9999&page=1",
    "/api/backends?page=1&items=9999&sort=name&order=asc",
    "/api/models/capabilities",
    "/api/models/config-json/chat",
    f"/api/models/estimate/chat?{CONTEXTS}",
    f"/api/models/estimate/all-minilm-l6-v2?{CONTEXTS}",
    f"/api/models/estimate/fake-chat?{CONTEXTS}",
    f"/api/models/estimate/fake-slow?{CONTEXTS}",
    f"/api/models/estimate/gemma-3-270m?{CONTEXTS}",
    f"/api/models/estimate/piper-en-us-joe?{CONTEXTS}",
    f"/api/models/estimate/whisper-base?{CONTEXTS}",
    "/api/models?items=9999&page=1",
    "/api/models?page=1&items=30&collapse_variants=true",
    "/api/nodes",
    "/api/nodes/models",
    "/api/nodes/scheduling",
    "/api/operations",
    "/api/operations/history",
    "/backends",
    "/backends/known",
    "/v1/models",
)


@pytest.mark.behaviour("API-28")
async def test_every_reading_call_of_localai_is_answered(frontend: RunningFrontend) -> None:
    status, answer = await frontend.call("PUT", "/api/models/config/chat", {"backend": "fake"})
    assert status == 200, answer
    refused = {}
    for path in CALLS:
        status, answer = await frontend.call("GET", path)
        if status != 200:
            refused[path] = (status, answer)
    assert refused == {}


@pytest.mark.behaviour("API-28")
@pytest.mark.parametrize(("path", "entries"), [("/api/backends", "backends"), ("/api/models", "models")])
async def test_list_gives_its_largest_page_when_more_items_are_requested(
    frontend: RunningFrontend, path: str, entries: str
) -> None:
    _, most = await frontend.call("GET", f"{path}?items={ITEMS_MAX}")
    status, page = await frontend.call("GET", f"{path}?items=9999")
    assert (status, page) == (200, most)
    assert page[entries]
    assert page["currentPage"] == 1


async def test_config_json_answers_the_configuration_alone_with_its_revision(frontend: RunningFrontend) -> None:
    await frontend.call("PUT", "/api/models/config/team%2Fchat", {"backend": "fake", "aliases": ["c"]})
    status, config = await frontend.call("GET", "/api/models/config-json/team/chat")
    assert (status, config["name"], config["backend"]) == (200, "team/chat", "fake")
    assert (await frontend.call("GET", "/api/models/config-json/c"))[1] == config
    assert (await frontend.call("GET", "/api/models/config-json/nobody"))[0] == 404
