"""`corral operations …`, short ids, and what is printed about an operation while it moves."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.cli.operation_views import resolve_id, shorten_id
from corral.cli.progress import LINE_EVERY_S, ProgressReporter, SpeedMeter, format_end_line
from corral.domain.errors import InvalidRequest
from corral.wire.operations import OperationDetailOut
from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import NOON, OPERATION, a_target, an_operation, hello, json_answer

READ = f"GET /api/operations/{OPERATION}"
SHORT = "6c48d021"


def a_record(**changes: Any) -> dict[str, Any]:
    record = {key: value for key, value in an_operation().items() if key not in ("nodes", "rev", "progress", "request")}
    return record | {"outcome": "completed", "finishedAt": NOON.isoformat(), "startedAt": NOON.isoformat()} | changes


def _listed(frontend: Any, *operations: dict[str, Any], history: tuple[dict[str, Any], ...] = ()) -> None:
    frontend.on("GET /api/operations", json_answer({"operations": list(operations)}))
    frontend.on("GET /api/operations/history", json_answer({"operations": list(history)}))


def test_list_is_a_table_with_short_ids(corral, frontend):
    _listed(frontend, an_operation(progress=41.7))
    outcome = corral("operations", "list")
    header, row = outcome.out.splitlines()
    assert header.split() == ["ID", "WHAT", "NAME", "NODES", "STATE", "DONE", "AGE", "BY", "MESSAGE"]
    assert row.startswith(f"{SHORT}   install   engine   0/1     running   42%")
    assert json.loads(corral("operations", "list", "--json").out)[0]["jobID"] == OPERATION
    _listed(frontend)
    assert "corral operations history" in corral("operations", "list").err


@pytest.mark.parametrize("short_id", [OPERATION, OPERATION[:20], SHORT, SHORT[-4:], SHORT.upper()])
def test_operation_is_found_by_the_beginning_or_the_end_of_its_id(corral, frontend, short_id):
    _listed(frontend, an_operation())
    answer = {"success": True, "message": "Cancelled.", "operation": an_operation(state="cancelled")}
    frontend.on(f"POST /api/operations/{OPERATION}/cancel", json_answer(answer))
    outcome = corral("operations", "cancel", short_id)
    assert (outcome.code, outcome.out) == (0, "")
    assert f"install engine ({SHORT}): Cancelled." in outcome.err


def test_id_that_could_be_several_is_refused_with_those_it_could_be(corral, frontend):
    other = OPERATION[:-1] + "2"
    _listed(frontend, an_operation(), history=(a_record(id=other),))
    outcome = corral("operations", "cancel", OPERATION[:8])
    assert outcome.code == 1
    assert OPERATION in outcome.err
    assert other in outcome.err
    assert bodies(frontend, f"POST /api/operations/{OPERATION}/cancel") == []
    assert corral("operations", "cancel", "abc").code == 1
    assert "no-such-one" in resolve_id([OPERATION], "no-such-one")


@given(ids=st.lists(st.uuids().map(str), min_size=1, max_size=30, unique=True))
def test_short_form_that_is_shown_leads_back_or_is_refused(ids: list[str]) -> None:
    try:
        assert resolve_id(ids, shorten_id(ids[0])) == ids[0]
    except InvalidRequest:
        assert sum(one.endswith(shorten_id(ids[0])) or one.startswith(shorten_id(ids[0])) for one in ids) > 1


def test_show_has_the_nodes_the_log_and_the_next_step(corral, frontend):
    _listed(frontend, an_operation())
    failed = a_target(state="error", status="error", error="disk full", previous_version="1.0")
    frontend.on(
        READ, json_answer(an_operation(state="failed", error="gpu-a: disk full", errorCode="disk_full", nodes=[failed]))
    )
    notes = [{"at": NOON.isoformat(), "level": "error", "text": "failed: disk full", "node_name": "gpu-a"}]
    frontend.on(f"{READ}/events", json_answer(notes))
    out = corral("operations", "show", SHORT).out
    assert "gpu-a: disk full (disk_full)" in out
    assert "gpu-a   failed   -       0%     -       cuda-engine   2.0.0     1.0      disk full" in out
    assert "error: gpu-a: failed: disk full" in out
    assert f"Next: corral operations retry {SHORT}" in out
    assert json.loads(corral("operations", "show", SHORT, "--json").out)["log"][0]["level"] == "error"


def test_history_reads_page_after_page_and_says_when_it_is_stale(corral, frontend):
    first = {"operations": [a_record()], "next": "1-x"}
    last = {"operations": [a_record(id=OPERATION[:-1] + "2", outcome="failed", error="no")], "stale": "Old."}
    frontend.on("GET /api/operations/history", json_answer(first), json_answer(last))
    outcome = corral("operations", "history")
    assert len(outcome.out.splitlines()) == 3
    assert frontend.seen[1].query["before"] == "1-x"
    assert "Old." in outcome.err
    frontend.on("DELETE /api/operations/history", json_answer({"success": True, "removed": 4}))
    assert "Deleted 4 records" in corral("operations", "history", "--clear", "--yes").err
    assert corral("operations", "history", "--clear", typed="n\n", is_terminal=True).code == 1


def test_history_command_filters_by_node_and_names_the_nodes_of_each_operation(corral, frontend):
    many = a_record(nodes=["a", "b", "c", "d"], nodeCount=25)
    many.pop("nodeName", None)
    frontend.on("GET /api/operations/history", json_answer({"operations": [many]}))
    outcome = corral("operations", "history", "--node", "gpu-a")
    assert "a, b, c and 22 more" in outcome.out
    assert frontend.seen[0].query["node"] == "gpu-a"
    assert corral("operations", "history", "--node", "gpu-a", "--clear", "--yes").code == 2
    frontend.on("GET /api/operations/history", json_answer({"operations": []}))
    assert "No operations match this filter." in corral("operations", "history", "--node", "gpu-a").err


def test_history_sends_its_filters_to_the_frontend(corral, frontend):
    frontend.on("GET /api/operations/history", json_answer({"operations": []}))
    corral(
        "operations", "history", "--outcome", "failed", "--kind", "loads", "--search", "nope", "--since", "2026-11-01"
    )
    query = frontend.seen[0].query
    assert (query["outcome"], query["kind"], query["search"]) == ("failed", "loads", "nope")
    assert query["since"] == "2026-11-01T00:00:00+00:00"


def test_retry_follows_the_new_operation(corral, frontend):
    old = OPERATION[:-1] + "9"
    _listed(frontend, an_operation(id=old, state="failed"))
    answer = {"success": True, "message": "Asked for again.", "id": OPERATION, "operation": an_operation()}
    frontend.on(f"POST /api/operations/{old}/retry", json_answer(answer))
    frontend.on(READ, json_answer(an_operation(state="completed", nodes=[])))
    assert corral("operations", "retry", old[-8:]).code == 0
    assert corral("operations", "retry", old[-8:], "--detach").out == f"{OPERATION}\n"


def test_watching_all_prints_a_line_for_each_change(corral, frontend):
    data = {"id": OPERATION, "rev": 3, "state": "running", "kind": "backend_install", "subject": "engine"}
    body = {"id": "1-1", "kind": "operation.changed", "key": OPERATION, "at": NOON.isoformat(), "data": data}
    change = f"id: 1-1\nevent: operation.changed\ndata: {json.dumps(body)}\n\n".encode()
    frontend.streams = [hello() + change]
    outcome = corral("operations", "watch")
    assert outcome.out.splitlines()[0].endswith(f"operation.changed  {SHORT}  install  engine  running")
    frontend.streams = [hello() + change]
    assert json.loads(corral("operations", "watch", "--json").out.splitlines()[0])["data"]["rev"] == 3


def test_watching_one_is_data_on_standard_output(corral, frontend):
    _listed(frontend, an_operation())
    done = a_target(state="success", status="success", percentage=100.0)
    frontend.on(READ, json_answer(an_operation(state="completed", progress=100.0, nodes=[done])))
    outcome = corral("operations", "watch", SHORT)
    assert (outcome.code, outcome.out) == (0, "gpu-a: completed cuda-engine 2.0.0\n")


def _operation(**target: Any) -> OperationDetailOut:
    return OperationDetailOut.model_validate(an_operation(nodes=[a_target(**target)]))


@pytest.mark.behaviour("CLI-14")
def test_node_progress_is_printed_at_most_once_a_second_and_its_end_always():
    working = {"state": "working", "phase": "downloading", "total": 10_000}
    story = ProgressReporter(_operation())
    printed = []
    for tick in range(50):
        now = tick / 10
        story.apply_update(_operation(**working, percentage=float(tick), current=tick * 200), now)
        printed += [(now, line) for line in story.list_new_lines(now)]
    assert [moment for moment, _ in printed] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert all(later[0] - earlier[0] >= LINE_EVERY_S for earlier, later in pairwise(printed))
    assert printed[-1][1] == "gpu-a: downloading  40%  7.8 KiB/9.8 KiB  2 KiB/s  1s left"
    end = _operation(state="success", percentage=100.0)
    assert story.apply_update(end, 5.0) == ["gpu-a: completed cuda-engine 2.0.0"]
    assert story.apply_update(end, 5.1) == []
    assert story.list_new_lines(9.0) == []


def test_node_progress_is_not_printed_again_when_it_has_not_changed():
    story = ProgressReporter(_operation())
    assert story.list_new_lines(0.0) == ["gpu-a: queued"]
    assert story.list_new_lines(5.0) == []


def test_node_that_failed_says_why_and_when_it_is_tried_again():
    story = ProgressReporter(_operation(state="queued", attempt=2, error="The source does not respond."))
    assert story.list_new_lines(0.0) == [
        "gpu-a: retrying: attempt 3 of 10, 60s after the last  The source does not respond."
    ]


def test_progress_line_shows_the_first_line_of_an_error_only():
    error_text = (
        "This machine cannot reach index.invalid: its name cannot be resolved.\nerror: Failed to fetch\n  cause: dns"
    )
    (line,) = ProgressReporter(_operation(state="queued", attempt=1, error=error_text)).list_new_lines(0.0)
    assert line.endswith("  This machine cannot reach index.invalid: its name cannot be resolved.")


def test_end_says_what_the_node_has_now_in_one_line():
    back = _operation(state="success", previous_version="1.0", is_rollback=True).nodes[0]
    assert format_end_line(back) == "gpu-a: rolled back to 1.0"
    failed = _operation(state="error", error="The check ended with 1.\n\tNo library.\x1b[2J").nodes[0]
    assert (
        format_end_line(failed)
        == "gpu-a: failed cuda-engine 2.0.0: The check ended with 1.  No library.\N{REPLACEMENT CHARACTER}[2J"
    )


def test_progress_speed_is_of_the_last_seconds_or_unknown():
    speed = SpeedMeter()
    assert speed.compute_per_second() is None
    speed.add_sample(0.0, 0)
    assert speed.compute_per_second() is None
    for second in range(1, 20):
        speed.add_sample(float(second), second * 10)
    assert speed.compute_per_second() == 10.0
    for second in range(20, 40):
        speed.add_sample(float(second), 190 + (second - 19) * 100)
    assert speed.compute_per_second() == 100.0
    speed.add_sample(41.0, 5)
    assert speed.compute_per_second() is None
