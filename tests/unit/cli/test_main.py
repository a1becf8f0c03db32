"""The command line as a whole: exit codes, help, start-up, settings as flags."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from subprocess import PIPE
from typing import Any

import pytest
import typer
from typer.main import get_command

from corral import __version__
from corral.app.settings import FrontendSettings, LoadedSettings, UpSettings, WorkerSettings, describe_settings
from corral.cli import processes, render
from corral.cli.completion import complete_node_names
from corral.cli.main import COMMANDS, load_command
from corral.cli.processes import make_settings_command
from corral.domain.errors import InvalidRequest
from tests.support.children import start_child
from tests.unit.client.standin import KEY, a_node, an_event, hang_up, json_answer, refusal


def in_a_process(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real program, with an environment that holds nothing else."""
    kept = {name: value for name, value in _environment().items() if not name.startswith("CORRAL_")}
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=60, env=kept | environment, check=False
    )


def _environment() -> dict[str, str]:
    return dict(os.environ)


@pytest.mark.behaviour("CLI-3")
@pytest.mark.parametrize(
    "words",
    [["nodse"], ["nodes", "lst"], ["nodes", "list", "--colour"], ["nodes"], [], ["nodes", "show"], ["config", "x"]],
)
def test_wrong_usage_is_two_and_talks_on_standard_error(corral, words):
    outcome = corral(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(("error: ", "Usage: "))


@pytest.mark.behaviour("CLI-3")
def test_misspelt_command_names_the_one_that_was_meant(corral):
    outcome = corral("nodse", "list")
    assert outcome.err == "error: No such command 'nodse'. Did you mean 'nodes'?\n\nhint: corral --help\n"


@pytest.mark.behaviour("CLI-3")
@pytest.mark.parametrize(
    ("status", "code"), [(400, 1), (401, 1), (403, 1), (404, 1), (409, 1), (422, 1), (503, 1), (500, 2)]
)
def test_refusal_is_one_and_a_fault_is_two(corral, frontend, status, code):
    frontend.on("GET /api/nodes", refusal(status, "some_code", "No."))
    assert corral("nodes", "list").code == code


@pytest.mark.behaviour("CLI-3")
def test_cut_connection_is_one_sentence(corral, frontend):
    frontend.on("POST /api/nodes/gpu-a/drain", hang_up)
    outcome = corral("nodes", "drain", "gpu-a")
    assert outcome.code == 1
    assert outcome.err.startswith(f"error: {frontend.url} does not respond (")
    assert "Traceback" not in outcome.err


@pytest.mark.behaviour("CLI-3")
def test_interrupted_command_is_130(frontend, tmp_path):
    frontend.streams = [an_event(1)]
    frontend.holds_last_stream = True
    environment = _environment() | {"CORRAL_URL": frontend.url, "CORRAL_KEY": KEY, "HOME": str(tmp_path)}
    with start_child(
        [sys.executable, "-m", "corral", "nodes", "watch"], stdout=PIPE, stderr=PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert "node.approved" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=60)
    assert process.returncode == 130
    assert talk == ""


@pytest.mark.behaviour("CLI-3")
def test_fault_of_ours_is_two_with_a_traceback():
    program = "import sys, corral.__main__ as m; m.run = lambda: 1 / 0; sys.exit(m.main())"
    outcome = in_a_process("-c", program)
    assert outcome.returncode == 2
    assert "Traceback" in outcome.stderr
    assert "error: ZeroDivisionError: division by zero" in outcome.stderr
    assert "bug in Corral" in outcome.stderr


@pytest.mark.parametrize("words", [["--help"], ["nodes", "--help"], ["version"], ["nodes", "list"]])
def test_light_commands_load_nothing_heavy(words, tmp_path):
    program = (
        "import sys; from corral.cli.main import run; code = run(sys.argv[1:]); "
        "heavy = {'fastapi', 'sqlalchemy', 'asyncpg', 'uvicorn', 'starlette', 'nats', 'alembic', 'mcp'}; "
        "light = {'aiohttp', 'structlog', 'asyncio'} if sys.argv[1:] != ['nodes', 'list'] else set(); "
        "print('loaded', sorted((heavy | light) & set(sys.modules)), file=sys.stderr)"
    )
    outcome = in_a_process("-c", program, *words, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert "loaded []" in outcome.stderr, outcome.stderr


def test_listing_nodes_of_a_real_address_loads_no_server_library(frontend, tmp_path):
    frontend.on("GET /api/nodes", json_answer([a_node()]))
    program = (
        "import sys; from corral.cli.main import run; run(['nodes', 'list']); "
        "print(sorted({'fastapi', 'sqlalchemy', 'asyncpg', 'uvicorn', 'nats'} & set(sys.modules)), file=sys.stderr)"
    )
    outcome = in_a_process("-c", program, HOME=str(tmp_path), CORRAL_URL=frontend.url, CORRAL_KEY=KEY)
    assert "gpu-a" in outcome.stdout
    assert outcome.stderr.strip() == "[]"


def test_nodes_list_leaves_types_and_settings_of_others_unloaded(frontend, tmp_path):
    frontend.on("GET /api/nodes", json_answer([a_node()]))
    program = (
        "import sys; from corral.__main__ import main; sys.argv[1:] = ['nodes', 'list']; main(); "
        "nouns = ('wire.backends', 'wire.models', 'wire.access', 'app.settings.models', "
        "'domain.backend', 'domain.operation', 'rich.progress', 'rich.console'); "
        "print([name for name in nouns if name in sys.modules or f'corral.{name}' in sys.modules], file=sys.stderr)"
    )
    outcome = in_a_process("-c", program, HOME=str(tmp_path), CORRAL_URL=frontend.url, CORRAL_KEY=KEY)
    assert "gpu-a" in outcome.stdout
    assert outcome.stderr.strip() == "[]"


def test_command_for_a_plain_address_reads_no_ca_certificates(frontend, tmp_path):
    frontend.on("GET /api/nodes", json_answer([a_node()]))
    program = (
        "import gc, sys, ssl; from corral.cli.main import run; run(['nodes', 'list']); "
        "contexts = [one for one in gc.get_objects() if isinstance(one, ssl.SSLContext)]; "
        "import aiohttp.connector as c; contexts += [c._SSL_CONTEXT_VERIFIED, c._SSL_CONTEXT_UNVERIFIED]; "
        "print(sum(one.cert_store_stats()['x509'] for one in contexts), file=sys.stderr)"
    )
    outcome = in_a_process("-c", program, HOME=str(tmp_path), CORRAL_URL=frontend.url, CORRAL_KEY=KEY)
    assert "gpu-a" in outcome.stdout
    assert outcome.stderr.strip() == "0"


def test_command_collects_garbage_again_once_it_runs():
    program = (
        "import gc, sys; from corral.__main__ import main; sys.argv[1:] = ['version']; main(); "
        "print(gc.isenabled(), file=sys.stderr)"
    )
    assert in_a_process("-c", program).stderr.strip() == "True"


def test_output_is_coloured_only_on_a_terminal_and_never_with_no_color(monkeypatch):
    class Terminal:
        def isatty(self) -> bool:
            return True

    terminal: Any = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    assert render.has_colour(terminal)
    monkeypatch.setenv("TERM", "dumb")
    assert not render.has_colour(terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not render.has_colour(terminal)


def test_colour_does_not_move_a_column():
    rows = [["gpu-a", "healthy", "x"], ["b", "offline", "yy"]]
    painted = render.format_table(("name", "status", "more"), rows, colour=True)
    assert "\x1b[32mhealthy\x1b[0m" in painted
    assert re.sub(r"\x1b\[\d+m", "", painted) == render.format_table(("name", "status", "more"), rows)


def test_wide_characters_keep_the_columns_straight():
    lines = render.format_table(("name", "status"), [["日本", "up"], ["ab", "down"]]).splitlines()
    assert lines == ["NAME   STATUS", "日本   up", "ab     down"]


def test_every_entry_of_the_help_says_what_its_command_says():
    for name, entry in COMMANDS.items():
        command = load_command(name, entry)
        own = (command.help or "").split("\n\n")[0].replace("\n", " ").strip()
        assert own.startswith(entry.sentence), name


@pytest.mark.behaviour("CLI-2")
def test_every_client_command_has_json_and_connection_options():
    for name in ("nodes", "tokens", "keys", "config"):
        group = load_command(name, COMMANDS[name])
        for verb, command in group.commands.items():
            options = {option for parameter in command.params for option in parameter.opts}
            assert "--json" in options, f"{name} {verb}"
            # `recover` is for whoever has no key, and talks to the registry itself.
            is_local = name == "config" or (name, verb) == ("keys", "recover")
            assert is_local or {"--url", "--key", "--key-file"} <= options, f"{name} {verb}"


@pytest.mark.parametrize(
    ("model", "name"), [(FrontendSettings, "serve"), (WorkerSettings, "worker"), (UpSettings, "up")]
)
def test_every_setting_is_a_flag_that_names_its_variable(model, name):
    command = load_command(name, COMMANDS[name])
    flags = {option: parameter for parameter in command.params for option in parameter.opts}
    for doc in describe_settings(model):
        parameter = flags.pop(doc.flag)
        shown_help = f"{parameter.help} {getattr(parameter, 'envvar', None)}"
        assert doc.environment in shown_help, doc.flag
        if doc.file_environment and name != "up":
            assert doc.file_environment in (flags.pop(f"{doc.flag}-file").help or "")
    # Of the type of a node there is a short spelling.
    assert set(flags) <= {"--config", "--help", "-h", "--type"}


def test_flags_reach_the_settings_and_win_over_variables(monkeypatch):
    seen: list[WorkerSettings] = []

    def remember(loaded: LoadedSettings[WorkerSettings]) -> int:
        seen.append(loaded.settings)
        return 7

    app = typer.Typer()
    app.command("worker")(make_settings_command(WorkerSettings, remember, help_text="Try it."))
    monkeypatch.setenv("CORRAL_NAME", "from-variable")
    monkeypatch.setenv("CORRAL_HTTP_PORT", "1")
    words = ["--join", "http://f:1", "--labels", "a=b", "--max-replicas-per-model", "3", "--http-port", "2"]
    assert get_command(app).main(words, standalone_mode=False) == 7
    (settings,) = seen
    assert (settings.join, settings.labels, settings.max_replicas_per_model) == ("http://f:1", {"a": "b"}, 3)
    assert (settings.name, settings.http_port) == ("from-variable", 2)


def test_serve_and_worker_refuse_wrong_settings_before_they_start(corral):
    outcome = corral("worker", "--join", "nowhere")
    assert outcome.code == 1
    assert outcome.err.startswith("error: --join is not an address of a frontend ('nowhere')")
    outcome = corral("serve", "--port", "x")
    assert outcome.code == 1
    assert "--port is not valid" in outcome.err
    assert "CORRAL_DATABASE_URL is required" in outcome.err


def test_missing_library_is_named_with_what_to_install():
    with pytest.raises(InvalidRequest, match="no_such_library is not installed") as caught:
        processes._import_module("no_such_library.part", "frontend")
    assert "uv pip install -e '.[frontend]'" in (caught.value.hint or "")


def test_version_is_printed(corral):
    assert corral("version").out == f"corral {__version__}\n"
    assert corral("--version").out == f"corral {__version__}\n"
    assert json.loads(corral("version", "--json").out)["version"] == __version__


def test_node_names_are_completed_when_the_cluster_answers_and_nothing_else_happens(frontend, capsys):
    frontend.on("GET /api/nodes", json_answer([a_node("gpu-a"), a_node("gpu-b"), a_node("cpu")]))
    assert complete_node_names("gpu") == ["gpu-a", "gpu-b"]
    frontend.on("GET /api/nodes", refusal(500, "x", "No."))
    assert complete_node_names("gpu") == []
    frontend.on("GET /api/nodes", hang_up)
    assert complete_node_names("gpu") == []
    assert capsys.readouterr() == ("", "")


def test_shell_gets_node_names_from_the_program_itself(frontend, tmp_path):
    frontend.on("GET /api/nodes", json_answer([a_node("gpu-a"), a_node("gpu-b"), a_node("cpu")]))
    variables = {"_CORRAL_COMPLETE": "complete_bash", "COMP_WORDS": "corral nodes show gpu", "COMP_CWORD": "3"}
    outcome = in_a_process("-m", "corral", HOME=str(tmp_path), CORRAL_URL=frontend.url, CORRAL_KEY=KEY, **variables)
    assert outcome.stdout.split() == ["gpu-a", "gpu-b"]
    assert outcome.stderr == ""


def test_node_names_without_a_cluster_are_none():
    assert complete_node_names("") == []


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (24 * 1024**3, "24 GiB")]
)
def test_sizes_are_human_and_unknown_is_not_zero(size_bytes, text):
    assert render.format_size(size_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (90000, "25h"), (172800, "2d")]
)
def test_ages_use_the_largest_unit_that_fits(seconds, text):
    assert render.format_span(seconds) == text


@pytest.mark.behaviour("CLI-3")
def test_error_of_a_json_command_is_one_line_of_json_on_standard_error(corral, frontend):
    frontend.on("GET /api/nodes/mni", refusal(404, "node_not_found", "There is no node 'mni'.", "Did you mean mini?"))
    outcome = corral("nodes", "show", "mni", "--json")
    assert (outcome.code, outcome.out) == (1, "")
    assert json.loads(outcome.err) == {
        "error": {
            "code": "node_not_found",
            "message": "There is no node 'mni'.",
            "hint": "Did you mean mini?",
            "details": {"request_id": "r-1"},
        }
    }


@pytest.mark.behaviour("CLI-3")
def test_wrong_usage_of_a_json_command_is_json_too(corral):
    outcome = corral("nodes", "list", "--json", "--colour")
    assert (outcome.code, outcome.out) == (2, "")
    assert json.loads(outcome.err)["error"]["code"] == "wrong_usage"


@pytest.mark.behaviour("CLI-3")
def test_first_interrupt_at_a_question_ends_the_command(frontend, tmp_path):
    frontend.on("GET /api/nodes/gpu-a", json_answer(a_node()))
    environment = _environment() | {"CORRAL_URL": frontend.url, "CORRAL_KEY": KEY, "HOME": str(tmp_path)}
    ours, theirs = pty.openpty()
    with start_child(
        [sys.executable, "-m", "corral", "nodes", "remove", "gpu-a"],
        stdin=theirs,
        stdout=PIPE,
        stderr=PIPE,
        env=environment,
    ) as process:
        assert process.stderr is not None
        prompt = b""
        while not prompt.endswith(b"[y/N] "):
            prompt += process.stderr.read(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 130
    assert [seen.method for seen in frontend.seen] == ["GET"]
