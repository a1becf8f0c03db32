"""The words for states: every state has one, and the page shows the same as the command line."""

from __future__ import annotations

from enum import StrEnum

import pytest

from corral.domain.access import SecretState
from corral.domain.agent import AgentStatus
from corral.domain.backend import AssignmentState
from corral.domain.batch import FINAL_BATCH_STATUSES, BatchStatus
from corral.domain.node import NodeStatus
from corral.domain.operation import JobPhase, JobState, OperationState, TargetState
from corral.domain.replica import ReplicaState
from corral.domain.run import FINAL_RUN_STATES, RunKind, RunState, RunTrigger
from corral.domain.state_words import STATE_WORDS, find_word, say_run_state
from corral.domain.task import TaskRunStatus, WebhookState, to_task_run_status
from tools.pages import state_words
from tools.source import ROOT

STATES: dict[str, type[StrEnum]] = {
    "operation": OperationState,
    "target": TargetState,
    "job": JobState,
    "phase": JobPhase,
    "node": NodeStatus,
    "replica": ReplicaState,
    "change": AssignmentState,
    "run": RunState,
    "run_kind": RunKind,
    "trigger": RunTrigger,
    "task_run": TaskRunStatus,
    "batch": BatchStatus,
    "webhook": WebhookState,
    "agent": AgentStatus,
    "secret": SecretState,
}


@pytest.mark.parametrize("name", sorted(STATES))
def test_state_word_exists_for_every_member_of_its_enumeration(name: str) -> None:
    words = STATE_WORDS[name]
    assert list(words) == [one.value for one in STATES[name]]
    assert [word for word in words.values() if not word or "_" in word] == []


def test_state_words_have_one_table_for_each_enumeration() -> None:
    assert sorted(STATE_WORDS) == sorted(STATES)


def test_state_word_of_one_outcome_is_the_same_in_every_table() -> None:
    assert {STATE_WORDS["operation"]["completed"], STATE_WORDS["target"]["success"], STATE_WORDS["job"]["done"]} == {
        "completed"
    }
    assert {STATE_WORDS["target"]["error"], STATE_WORDS["operation"]["failed"], STATE_WORDS["change"]["dead"]} == {
        "failed"
    }


def test_state_word_of_a_queued_job_is_that_of_its_run() -> None:
    assert find_word(STATE_WORDS["task_run"], to_task_run_status(RunState.QUEUED)) == STATE_WORDS["run"]["queued"]


@pytest.mark.parametrize("state", sorted(FINAL_RUN_STATES | FINAL_BATCH_STATUSES))
def test_sentence_about_an_ended_run_or_batch_has_a_verb_instead_of_a_state(state: str) -> None:
    assert say_run_state("The turn", state) in (
        f"The turn {verb} {state}".replace("  ", " ") for verb in ("", "was", "has")
    )


def test_sentence_about_an_open_run_has_its_word() -> None:
    assert say_run_state("The job", "waiting_approval") == "The job is waiting for approval"


def test_state_without_word_is_shown_with_blanks() -> None:
    assert find_word(STATE_WORDS["operation"], "waiting_for_godot") == "waiting for godot"


def test_state_words_of_the_page_are_the_generated_ones() -> None:
    assert (ROOT / "ui/src/text/stateWords.gen.ts").read_text(encoding="utf-8") == state_words.render()
