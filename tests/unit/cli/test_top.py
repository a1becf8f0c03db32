"""`corral top`: what a person sees of models at work."""

from __future__ import annotations

import json
import os
import pty
import signal
import sys
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from corral.cli.top import _format_number, _format_seconds, render_screen
from corral.wire.live import LiveOut
from tests.support.children import start_child
from tests.unit.client.standin import KEY, NOON, json_answer, refusal


def a_pace(**changes: Any) -> dict[str, Any]:
    pace: dict[str, Any] = {
        "requests_per_s": 3.2,
        "errors_per_s": 0.0,
        "prompt_tokens_per_s": 120.0,
        "tokens_per_s": 310.2,
        "first_byte_s": {"p50": 0.081, "p95": 1.21},
        "inter_token_s": {"p50": 0.0123, "p95": 0.02},
        "queue_s": {"p50": 0.001, "p95": 0.002},
    }
    return pace | changes


def a_replica(node: str = "gpu-a", **changes: Any) -> dict[str, Any]:
    return {"id": f"r-{node}", "node": node, "index": 0, "state": "loaded", "in_flight": 2, "pace": a_pace()} | changes


def a_live_model(name: str = "llama-8b", **changes: Any) -> dict[str, Any]:
    replicas = [a_replica(), a_replica("gpu-b", state="loading", in_flight=0, pace={})]
    return {"name": name, "waiting": 1, "in_flight": 2, "pace": a_pace(), "replicas": replicas} | changes


def a_look(**changes: Any) -> dict[str, Any]:
    look: dict[str, Any] = {
        "at": NOON.isoformat(),
        "answered_by": "front-1",
        "frontends": 2,
        "requests_open": 3,
        "streams_open": 2,
        "pace": a_pace(),
        "degraded": [],
        "models": [a_live_model()],
        "idle_models": 4,
    }
    return look | changes


def test_top_shows_models_replicas_and_their_speed_once(corral, frontend):
    frontend.on("GET /api/live", json_answer(a_look()))
    outcome = corral("top", "--once")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "corral top   12:00:00 UTC   3.2 requests/s   310 tokens/s",
        "3 open, 2 of them streams   2 busy and 1 waiting   2 frontends together",
        "0.0 errors/s   TTFT 81ms (p95 1.2s)   queue p95 2.0ms   prompts 120 tokens/s",
        "",
        "MODEL, REPLICA             STATE      BUSY  WAIT   REQ/S   TOK/S    TTFT     P95",
        "llama-8b                   1/2           2     1     3.2     310    81ms    1.2s",
        "  gpu-a #0                 loaded        2           3.2     310    81ms    1.2s",
        "  gpu-b #0                 loading",
        "4 more without replicas or requests",
    ]


def test_top_json_is_the_answer_of_the_frontend(corral, frontend):
    frontend.on("GET /api/live", json_answer(a_look()))
    assert json.loads(corral("top", "--once", "--json").out) == LiveOut.model_validate(a_look()).model_dump(mode="json")


def test_top_shows_degradations_above_the_table():
    long = "NATS is away since noon: nodes get no commands; what is loaded is served, and usage is counted."
    lines = drawn(a_look(degraded=[long])).splitlines()
    assert lines[3].startswith("degraded: NATS is away since noon:")
    assert lines[4].startswith("  ")
    assert long in " ".join(line.strip() for line in lines[3:5])


def test_replica_that_is_left_out_is_not_called_loaded():
    model = a_live_model(replicas=[a_replica(breaker="open"), a_replica("gpu-b", breaker="half_open")])
    assert drawn(a_look(models=[model])).count("excluded") == 2


def test_idle_cluster_says_so():
    assert "No models are loaded and no requests are in flight." in drawn(a_look(models=[], idle_models=0))


def test_wider_terminal_shows_more():
    wide = drawn(a_look(), width=120).splitlines()[4]
    assert wide.split()[-2:] == ["GAP", "ERR/S"]
    assert "12ms" in drawn(a_look(), width=120)


@given(
    names=st.lists(st.text(min_size=1, max_size=60), max_size=12),
    width=st.integers(80, 200),
    height=st.integers(1, 60),
    value=st.floats(0, 1e7),
)
def test_every_line_fits_the_terminal_whatever_is_shown(names, width, height, value):
    pace = a_pace(requests_per_s=value, tokens_per_s=value, first_byte_s={"p50": value, "p95": value})
    models = [a_live_model(name, pace=pace, replicas=[a_replica(name, pace=pace)] * 3) for name in names]
    lines = drawn(a_look(models=models, degraded=names), width=width, height=height).splitlines()
    assert max(cell_len(line) for line in lines) <= width
    # The head is never left out.
    head = next(number for number, line in enumerate(lines) if line.startswith("MODEL")) + 1
    assert len(lines) <= max(height, head + 3)
    assert not any("\x1b" in line for line in lines)


def test_name_cannot_control_the_terminal_not_even_with_colours():
    text = render_screen(LiveOut.model_validate(a_look(models=[a_live_model("evil\x1b[2J\n")])), width=80, colour=True)
    assert "\x1b[2J" not in text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0.0"), (99.94, "99.9"), (99.96, "100"), (9999.4, "9999"), (9999.6, "10k"), (2e6, "2.0M")]
)
def test_numbers_are_short(value, text):
    assert _format_number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0012, "1.2ms"), (0.0999, "100ms"), (0.9994, "999ms"), (0.9996, "1.0s"), (99.96, "100s")],
)
def test_times_are_short(value, text):
    assert _format_seconds(value) == text


def drawn(look: dict[str, Any], *, width: int = 80, height: int | None = None) -> str:
    return render_screen(LiveOut.model_validate(look), width=width, height=height)


def test_top_on_a_terminal_is_redrawn_and_survives_the_loss_of_a_frontend(frontend, tmp_path):
    first, last = json_answer(a_look()), json_answer(a_look(models=[a_live_model("another-model")]))
    away = refusal(503, "starting", "This frontend is starting.")
    frontend.on("GET /api/live", first, away, away, away, away, last)
    ours, theirs = pty.openpty()
    environment = {"HOME": str(tmp_path), "CORRAL_URL": frontend.url, "CORRAL_KEY": KEY, "COLUMNS": "90", "LINES": "30"}
    with start_child(
        [sys.executable, "-m", "corral", "top"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment | {"TERM": "xterm", "NO_COLOR": "1"},
    ) as process:
        os.close(theirs)
        shown = ""
        while "another-model" not in shown:
            shown += os.read(ours, 4096).decode(errors="replace")
        process.send_signal(signal.SIGINT)
        # Whatever is still on its way: a terminal that nobody reads would keep the program from ending.
        with suppress(OSError):
            while os.read(ours, 4096):
                pass
    os.close(ours)
    assert process.returncode == 130
    assert "llama-8b" in shown
    assert "Retrying; these are the last known numbers." in shown
