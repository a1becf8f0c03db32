"""A change of a model is served by the frontend that took it before it answers."""

from __future__ import annotations

from typing import Any

from tests.support.frontends import RunningFrontend

CHAT = {"backend": "fake", "options": {"slots": 2}, "aliases": ["c"]}


async def test_frontend_serves_a_changed_model_before_it_responds(frontend: RunningFrontend):
    # No event reaches this frontend: what it knows comes from the calls themselves.
    await frontend.core.loops["feed"].stop()
    snapshot = frontend.core.gateway.router.snapshot

    def served(name: str = "chat") -> str | None:
        found = snapshot.find(name)
        return found.run_hash if found is not None and found.is_enabled else None

    async def change(method: str, path: str, body: Any = None) -> Any:
        status, answer = await frontend.call(method, path, body)
        assert status in (200, 201), answer
        return answer

    made = await change("PUT", "/api/models/config/chat", CHAT)
    assert served() == made["config_revision"]
    edited = await change("PUT", "/api/models/config/chat", CHAT | {"options": {"slots": 3}})
    assert served() == edited["config_revision"] != made["config_revision"]
    patched = await change("PATCH", "/api/models/config/chat", {"options": {"slots": 4}})
    assert served() == patched["config_revision"]
    await change("POST", "/api/models/rollback/chat", {"revision": 1})
    assert served() == made["config_revision"]
    await change("PUT", "/models/toggle-state/chat/disable")
    assert served() is None
    await change("PUT", "/models/toggle-state/chat/enable")
    await change("POST", "/api/models/rename", {"names": {"chat": "talk"}})
    assert (served("chat"), served("talk") is None) == (None, False)
    await change("DELETE", "/api/models/config/talk")
    assert served("talk") is None
    await change("POST", "/api/fleet", {"models": [{"name": "fleet-chat", "backend": "fake"}]})
    assert served("fleet-chat") is not None
