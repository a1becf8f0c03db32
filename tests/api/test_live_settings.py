"""Settings that admins change while frontends run: in force everywhere, shown with their origin, refused with a way."""

from __future__ import annotations

from typing import Any

import pytest

from corral.app.frontend import list_shown_settings
from corral.app.settings import FrontendSettings, load_settings
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.polling import eventually

NEEDED = {
    "CORRAL_DATABASE_URL": "postgresql://db/corral",
    "CORRAL_NATS_URL": "nats://bus:4222",
    "CORRAL_NATS_ACCOUNT_SEED": "SA" + "A" * 56,
}


def given(**variables: str) -> Any:
    """The settings of a frontend that was given these variables."""
    return list_shown_settings(load_settings(FrontendSettings, environ=NEEDED | variables))


async def change(frontend: RunningFrontend, **values: Any) -> dict[str, Any]:
    status, answer = await frontend.call("POST", "/api/settings", values)
    assert status == 200, answer
    return {one["name"]: one for one in answer["settings"]}


async def refusal(frontend: RunningFrontend, **values: Any) -> tuple[int, Any]:
    status, answer = await frontend.call("POST", "/api/settings", values)
    return status, answer["error"]


@pytest.mark.behaviour("SET-20")
async def test_changed_settings_are_in_force_at_once_here_and_soon_at_the_peers(database_url: str) -> None:
    async with (
        running_frontend(database_url, settings=given()) as one,
        running_frontend(database_url, settings=given()) as peer,
    ):
        values: dict[str, Any] = {"request_wait": "90s", "model_idle": "1h", "disk_check": False}
        shown = await change(one, **values, response_headers="no")
        assert (shown["request_wait"]["value"], shown["request_wait"]["is_live"]) == ("90s", True)
        assert shown["request_wait"]["source"] == "cluster, changed by admin"
        for frontend in (one, peer):

            async def is_in_force(core: Any = frontend.core) -> bool:
                owned = (core.gateway.wait_s, core.scaling.idle_s, core.checks_disk, core.gateway.has_response_headers)
                return bool(owned == (90.0, 3600.0, False, False))

            assert frontend is not one or await is_in_force()
            await eventually(is_in_force)
        shown = await change(one, request_wait=None, model_idle=0)
        assert (shown["request_wait"]["value"], shown["request_wait"]["source"]) == ("1m", "default")
        assert (one.core.gateway.wait_s, one.core.scaling.idle_s) == (60.0, None)


@pytest.mark.behaviour("SET-20")
async def test_changed_settings_are_read_by_a_frontend_that_starts_later(database_url: str) -> None:
    async with running_frontend(database_url, settings=given()) as one:
        await change(one, request_wait="90s")
    async with running_frontend(database_url, settings=given()) as later:
        assert later.core.gateway.wait_s == 90.0


@pytest.mark.behaviour("SET-21")
async def test_setting_that_was_given_at_the_start_wins_and_is_not_changed(database_url: str) -> None:
    fixed = given(CORRAL_REQUEST_WAIT="5s")
    async with (
        running_frontend(database_url, settings=given()) as free,
        running_frontend(database_url, settings=fixed, request_wait_s=5.0) as configured,
    ):
        status, error = await refusal(configured, request_wait="90s")
        assert (status, error["code"]) == (409, "setting_fixed")
        assert "environment CORRAL_REQUEST_WAIT" in error["message"]
        await change(free, request_wait="90s")
        await configured.core.live_settings.load()
        assert configured.core.gateway.wait_s == 5.0
        _, answer = await configured.call("GET", "/api/settings")
        (shown,) = [one for one in answer["settings"] if one["name"] == "request_wait"]
        assert (shown["value"], shown["source"]) == ("5s", "environment CORRAL_REQUEST_WAIT")


@pytest.mark.parametrize(
    ("name", "value", "code", "words"),
    [
        ("node_lease", "50s", "setting_not_live", "CORRAL_NODE_LEASE"),
        ("request_wiat", "50s", "unknown_setting", "request_wait"),
        ("watchdog", True, "unknown_setting", "model_idle"),
        ("request_wait", "soon", "bad_setting", "is not a duration"),
        ("log_level", "loud", "bad_setting", "log_level"),
    ],
)
async def test_settings_that_cannot_be_changed_are_refused_with_the_way_and_change_nothing(
    frontend: RunningFrontend, name: str, value: Any, code: str, words: str
) -> None:
    status, error = await refusal(frontend, **{"disk_check": False, name: value})
    assert (status, error["code"]) == (400, code)
    assert words in error["message"] + error["hint"]
    assert frontend.core.checks_disk
    assert (await frontend.call("POST", "/api/settings", {}))[0] == 400


@pytest.mark.behaviour("SET-20")
async def test_changed_settings_are_written_to_the_audit_log(frontend: RunningFrontend) -> None:
    await change(frontend, log_level="debug")
    _, audit = await frontend.call("GET", "/api/audit")
    newest = audit["entries"][0]
    assert (newest["action"], newest["target"], newest["detail"]) == ("settings.change", "log_level", "debug")
