"""How a manifest and a start command become a process; who gets how many threads; how long to wait after a crash."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.bus.messages import StartBackend
from corral.domain.backend import AdapterSupport, Manifest
from corral.domain.errors import InvalidRequest
from corral.runtime.processes import RestartBackoff, RestartCount, describe_exit
from corral.worker.job_ports import RunnableBackend
from corral.worker.processes.engine_health import is_bindable
from corral.worker.processes.launch import (
    EngineAllocation,
    choose_listen_host,
    clean_environment,
    hash_command,
    make_launch,
)
from corral.worker.processes.port_pool import ThreadBudget
from corral.worker.processes.process_control import BadManifest

PLACE = EngineAllocation(host="127.0.0.1", port=4711, threads=2, api_key="k3y")


def runnable(**changes: Any) -> RunnableBackend:
    values: dict[str, Any] = {"command": ("{python}", "{launcher}", "--port", "{port}", "{options}")} | changes
    return RunnableBackend(
        name="cpu-x", version="1", directory=Path("/b"), manifest=Manifest(**values), python="/b/bin/python"
    )


def make_command(**changes: Any) -> StartBackend:
    return StartBackend(**({"job_id": "j", "backend": "x", "model": "m", "model_path": "/models/m.gguf"} | changes))


@pytest.mark.behaviour("PROC-4")
def test_placeholders_become_values_and_options_arguments_in_the_manifests_order():
    made = make_launch(
        runnable(
            command=(
                "{python}",
                "{launcher}",
                "--at={host}:{port}",
                "-m",
                "{model}",
                "{name}",
                "{threads}",
                "{options}",
            ),
            environment={"KEY": "{api_key}", "WHERE": "{dir}/lib"},
            options={"context_size": ("--ctx", "{value}"), "flash": ("--flash",), "unused": ("--u",)},
        ),
        make_command(options={"flash": "yes", "context_size": "4096"}),
        PLACE,
        {},
    )
    assert made.command == (
        *("/b/bin/python", "/b/launcher.py", "--at=127.0.0.1:4711", "-m", "/models/m.gguf", "m", "2"),
        *("--ctx", "4096", "--flash"),
    )
    assert made.environment["KEY"] == "k3y"
    assert made.environment["WHERE"] == "/b/lib"
    assert "k3y" not in repr(made)
    assert "k3y" not in repr(PLACE)


@pytest.mark.behaviour("PROC-4")
def test_value_is_never_read_as_a_placeholder():
    made = make_launch(
        runnable(command=("e", "{name}", "{options}"), options={"o": ("--o={value}",)}),
        make_command(model="{api_key}", options={"o": "{api_key} $(id)"}),
        PLACE,
        {},
    )
    assert made.command == ("e", "{api_key}", "--o={api_key} $(id)")


def test_option_that_the_engine_does_not_have_is_refused_with_those_that_it_has():
    with pytest.raises(InvalidRequest, match="cpu-x has no option contxt") as caught:
        make_launch(runnable(options={"context": ("-c", "{value}")}), make_command(options={"contxt": "1"}), PLACE, {})
    assert caught.value.slug == "unknown_option"
    assert caught.value.hint == "It knows: context."


@pytest.mark.behaviour("ADAPT-8")
def test_adapters_become_arguments_of_engines_that_take_them_and_are_refused_by_others():
    option = json.dumps([{"name": "a{port}", "path": "/m/a.gguf"}, {"name": "b", "path": "/m/b.gguf"}])
    support = AdapterSupport(select="name", enable=("--lora",), each=("{adapter_name}={adapter_path}",))
    made = make_launch(
        runnable(command=("e", "{options}"), adapters=support), make_command(options={"adapters": option}), PLACE, {}
    )
    assert made.command == ("e", "--lora", "a{port}=/m/a.gguf", "b=/m/b.gguf")
    with pytest.raises(InvalidRequest) as caught:
        make_launch(runnable(command=("e", "{options}")), make_command(options={"adapters": option}), PLACE, {})
    assert caught.value.slug == "unknown_option"


@pytest.mark.parametrize(
    "changes",
    [
        {"command": ()},
        {"command": ("e", "{prot}")},
        {"command": ("e", "--all={options}")},
        {"command": ("e",), "options": {"o": ("-o",)}},
        {"environment": {"A": "{value}"}},
        {"options": {"o": ("{nothing}",)}},
    ],
)
def test_manifest_that_makes_no_sense_is_the_manifests_fault(changes: dict[str, Any]):
    with pytest.raises(BadManifest, match="The manifest of cpu-x") as caught:
        make_launch(runnable(**({"options": {"o": ("-o",)}} | changes)), make_command(options={"o": "1"}), PLACE, {})
    assert caught.value.slug == "bad_manifest"


def test_braces_that_are_no_placeholder_stay():
    made = make_launch(runnable(command=("e", '{"a": {}}', "{}")), make_command(), PLACE, {})
    assert made.command == ("e", '{"a": {}}', "{}")


def test_nul_in_a_value_is_refused():
    with pytest.raises(InvalidRequest, match="NUL"):
        make_launch(runnable(options={"o": ("{value}",)}), make_command(options={"o": "a\0b"}), PLACE, {})


@pytest.mark.behaviour("PROC-4")
def test_engine_gets_what_finds_programs_and_cards_and_no_secret():
    around = {
        "PATH": "/bin",
        "HOME": "/root",
        "LC_ALL": "C",
        "CUDA_VISIBLE_DEVICES": "1",
        "HSA_OVERRIDE_GFX_VERSION": "10.3.0",
        "CORRAL_NATS_URL": "nats://",
        "HF_TOKEN": "t",
        "NVIDIA_API_KEY": "n",
        "PYTHONPATH": "/elsewhere",
    }
    kept = {"PATH", "HOME", "LC_ALL", "CUDA_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION"}
    assert set(clean_environment(around)) == kept | {"PYTHONUNBUFFERED"}


@pytest.mark.behaviour("PROC-4")
def test_engine_that_checks_no_key_listens_on_the_loopback_only():
    assert choose_listen_host(Manifest(api_key="none"), "192.0.2.7") == "127.0.0.1"
    assert choose_listen_host(Manifest(api_key="flag"), "192.0.2.7") == "192.0.2.7"


def test_command_hash_does_not_depend_on_the_job():
    assert hash_command(runnable(), make_command(job_id="1")) == hash_command(runnable(), make_command(job_id="2"))
    assert hash_command(runnable(), make_command(threads=1)) != hash_command(runnable(), make_command(threads=2))


def test_threads_are_handed_out_once():
    budget = ThreadBudget(total=8)
    assert budget.allot("a") == 4
    assert budget.allot("b", 3) == 3
    assert budget.allot("c", 3) == 1
    assert budget.allot("d") == 1
    budget.release("a")
    assert budget.allot("e", 16) == 3
    assert budget.allot("e", 2) == 2


@given(st.integers(0, 16), st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(-1, 20)), max_size=30))
def test_threads_never_exceed_the_machines_unless_each_engine_has_one(
    total: int, requested: list[tuple[str, int | None]]
):
    budget = ThreadBudget(total=total)
    for owner, count in requested:
        assert budget.allot(owner, count) >= 1
        over = sum(budget.held.values()) - budget.total
        assert over <= 0 or list(budget.held.values()).count(1) >= over


@pytest.mark.behaviour("PROC-3")
def test_pauses_double_up_to_a_minute_and_start_over_after_five_minutes_of_health():
    patience, restarts, pauses = RestartBackoff(), RestartCount(), []
    for _ in range(9):
        restarts = restarts.with_crash(10.0, patience)
        pauses.append(restarts.compute_pause_s(patience))
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    healthy = restarts.with_crash(300.0, patience)
    assert (healthy.compute_pause_s(patience), healthy.total) == (1, 10)
    assert RestartCount(total=10**6, in_a_row=10**6).compute_pause_s(patience) == 60


@pytest.mark.behaviour("OPS-73")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (137, "ended with exit code 137"),
        (-11, "was ended by SIGSEGV"),
        (-9, "was ended by SIGKILL, perhaps because memory ran out"),
        (-250, "was ended by signal 250"),
        (None, "ended with an unknown exit code"),
    ],
)
def test_process_exit_is_described_in_words(code: int | None, words: str):
    assert describe_exit(code) == words


def test_port_that_another_program_listens_on_is_not_free():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert not is_bindable("127.0.0.1", port)
    assert is_bindable("127.0.0.1", port)
