"""`/docs`: the reference of the API, served by the frontend itself and without scripts."""

from __future__ import annotations

import re

from tests.support.frontends import RunningFrontend


async def test_reference_page_loads_nothing_from_elsewhere_and_cannot_be_framed(frontend: RunningFrontend) -> None:
    async with frontend.http.get(f"{frontend.url}/docs") as answer:
        text, headers = await answer.text(), answer.headers
        assert (answer.status, answer.content_type) == (200, "text/html")
    assert "<script" not in text
    assert [link for link in re.findall(r"(?:src|href)=[\"']?([^\"' >]+)", text) if "//" in link] == []
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_reference_page_lists_every_route_of_the_description(frontend: RunningFrontend) -> None:
    _, description = await frontend.call("GET", "/openapi.json")
    _, page = await frontend.call("GET", "/docs", key=None)
    paths = [path for path in description["paths"] if f"</span> {path}</code>" not in page]
    assert paths == []
    assert "Create an API key, for inference" in page
