"""Settings: where they come from, which are refused, and what is said about them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.app.frontend import _make_core_options
from corral.app.settings import (
    ALL_MODELS,
    ClientSettings,
    FrontendSettings,
    UpSettings,
    WorkerSettings,
    describe_all_settings,
    list_known_variables,
    load_settings,
    parse_registry_credentials,
    redact_settings,
)
from corral.app.settings.values import read_sealing_keys
from corral.app.worker import ControlPlaneEndpoint, WorkerDeps, make_real_tools, make_runner_variables
from corral.domain.duration import format_duration, parse_duration_s
from corral.domain.errors import InvalidRequest, UnknownSetting
from corral.domain.run import SERVER_GRACE_S
from corral.wire.runner_protocol import SERVER_GRACE_VARIABLE
from corral.worker.backends.installer import DiskInstaller

SEED = "SA" + "A" * 56
FRONTEND = {
    "CORRAL_DATABASE_URL": "postgresql://corral:hunter22@db:5432/corral",
    "CORRAL_NATS_URL": "nats://bus:4222",
    "CORRAL_NATS_ACCOUNT_SEED": SEED,
}
CREDENTIALS = '{"Registry.example:5000": "robot:pass:word22", "[::1]:5000": "a:b"}'
# Both or neither: what it takes to cut a removed node off.
REVOKING = {"CORRAL_NATS_OPERATOR_SEED": "SO" + "A" * 56, "CORRAL_NATS_SYSTEM_SEED": SEED}


def frontend(**variables: str) -> FrontendSettings:
    return load_settings(FrontendSettings, environ=FRONTEND | variables).settings


def refusal(model=FrontendSettings, *, environ=None, base=FRONTEND, **arguments) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        load_settings(model, environ={**base, **(environ or {})}, **arguments)
    return caught.value


def problems(error: InvalidRequest) -> list[object]:
    found = error.details["problems"]
    assert isinstance(found, list)
    return found


def a_file(tmp_path: Path, text: str, name: str = "corral.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.behaviour("SET-1")
def test_each_source_wins_over_the_one_before(tmp_path):
    config = a_file(tmp_path, "[frontend]\nport = 2\nhost = '0.0.0.2'\nlog_level = 'debug'\n")
    environ = {**FRONTEND, "CORRAL_PORT": "3", "CORRAL_HOST": "0.0.0.3"}
    loaded = load_settings(FrontendSettings, environ=environ, config=config, flags={"port": "4", "host": None})
    assert (loaded.settings.port, loaded.settings.host) == (4, "0.0.0.3")
    assert loaded.settings.log_level == "debug"
    assert loaded.settings.heartbeat_interval_s == 10
    origins = {name: str(origin) for name, origin in loaded.origins.items()}
    assert origins["port"] == "flag --port"
    assert origins["host"] == "environment CORRAL_HOST"
    assert origins["log_level"] == f"file frontend.log_level in {config}"
    assert origins["node_lease_s"] == "default"


@pytest.mark.behaviour("SET-1")
def test_file_can_be_named_by_a_variable_and_holds_a_table_per_process(tmp_path):
    config = a_file(tmp_path, "[frontend]\nport = 1\n[worker]\njoin = 'http://f:1'\n[worker.labels]\nsite = 'attic'\n")
    worker = load_settings(WorkerSettings, environ={"CORRAL_CONFIG": str(config)}).settings
    assert worker.join == "http://f:1"
    assert worker.labels == {"site": "attic"}


@pytest.mark.behaviour("OPS-87")
def test_prefetch_lists_are_trimmed_without_empty_names_and_repeats(tmp_path):
    config = a_file(tmp_path, "[worker]\njoin = 'http://f:1'\nprefetch_backends = 'llama-cpp, ,'\n")
    worker = load_settings(WorkerSettings, environ={"CORRAL_PREFETCH_MODELS": " a ,,b,a"}, config=config).settings
    assert (worker.prefetch_backends, worker.prefetch_models) == ("llama-cpp", "a,b")


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("CORRAL_PREFETCH_MODELS", ",".join(map(str, range(51))), "at most 50"),
        ("CORRAL_PREFETCH_BACKENDS", "a\x07b", "printable"),
        ("CORRAL_NODE_TYPE", "agent", "an agent node has neither"),
    ],
)
def test_prefetch_lists_that_cannot_work_are_refused(variable, value, words):
    environ = {"CORRAL_JOIN": "http://f:1", "CORRAL_PREFETCH_BACKENDS": "llama-cpp", variable: value}
    with pytest.raises(InvalidRequest) as refused:
        load_settings(WorkerSettings, environ=environ)
    assert words in str(refused.value.details)


def test_settings_are_read_from_the_process_environment_by_default(monkeypatch):
    for name in list_known_variables():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CORRAL_URL", "http://here:1")
    assert load_settings(ClientSettings).settings.url == "http://here:1"


def test_settings_do_not_change_after_they_were_read():
    with pytest.raises(ValueError, match="frozen"):
        frontend().port = 1  # type: ignore[misc]


def test_empty_variable_counts_as_unset():
    assert frontend(CORRAL_PORT="").port == 8080


@pytest.mark.behaviour("SET-2")
def test_settings_errors_are_listed_together_by_their_names(tmp_path):
    config = a_file(tmp_path, "[frontend]\nheartbeat_flush = 'soon'\n")
    error = refusal(
        environ={"CORRAL_PORT": "many", "CORRAL_NATS_URL": "http://bus"}, config=config, flags={"log_level": "loud"}
    )
    for name in ("CORRAL_PORT", "CORRAL_NATS_URL", "--log-level", f"frontend.heartbeat_flush in {config}"):
        assert name in error.message
    assert len(problems(error)) == 4


@pytest.mark.behaviour("SET-2")
def test_missing_settings_are_named_with_what_to_set():
    error = refusal(base={})
    for name in FRONTEND:
        assert f"{name} is required" in error.message
    assert "CORRAL_DATABASE_URL_FILE" in error.message
    alone = refusal(WorkerSettings, base={})
    assert alone.message == "CORRAL_JOIN is required"
    assert alone.hint is not None
    assert "--join" in alone.hint


def test_unknown_key_in_the_file_is_named_with_the_file_and_what_was_meant(tmp_path):
    config = a_file(tmp_path, "[frontend]\nheartbeat_intervall = '5s'\n", "cluster.toml")
    error = refusal(config=config)
    assert isinstance(error, UnknownSetting)
    assert "cluster.toml" in error.message
    assert error.hint == "Did you mean heartbeat_interval?"


def test_unknown_table_and_a_key_in_another_process_table_are_found_too(tmp_path):
    config = a_file(tmp_path, "[frontent]\nport = 1\n[worker]\njion = 'http://f'\n")
    error = refusal(config=config)
    assert isinstance(error, UnknownSetting)
    assert "Did you mean frontend?" in error.message
    assert "Did you mean join?" in error.message


@pytest.mark.behaviour("SET-4")
def test_unknown_variable_warns_at_start_and_fails_the_check():
    environ = {**FRONTEND, "CORRAL_DATABSE_URL": "x"}
    (warning,) = load_settings(FrontendSettings, environ=environ).warnings
    assert warning == "CORRAL_DATABSE_URL is set, but there is no such setting. Did you mean CORRAL_DATABASE_URL?"
    error = refusal(environ=environ, is_strict=True)
    assert isinstance(error, UnknownSetting)
    assert error.hint == "Did you mean CORRAL_DATABASE_URL?"


@pytest.mark.behaviour("SET-4")
@pytest.mark.parametrize("name", ["CORRAL_FOO", "CORRAL_POTATO", "CORRAL_X"])
def test_unknown_variable_unlike_any_other_suggests_no_setting(name):
    (warning,) = load_settings(FrontendSettings, environ={**FRONTEND, name: "x"}).warnings
    assert warning == f"{name} is set, but there is no such setting. `corral config show` lists all settings."


@pytest.mark.behaviour("SET-4")
def test_variables_of_other_processes_are_known_everywhere():
    environ = {
        **FRONTEND,
        "CORRAL_JOIN": "http://f:1",
        "CORRAL_HOME": "/tmp/x",
        "CORRAL_TOKEN_FILE": "/x",
        "OTHER": "1",
    }
    assert load_settings(FrontendSettings, environ=environ, is_strict=True).warnings == ()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("1h", 3600), ("45", 45), ("1.5s", 1.5), ("250ms", 0.25), ("1d", 86400)],
)
def test_durations_are_written_with_a_unit_or_as_seconds(text, seconds):
    assert frontend(CORRAL_OUTBOX_RETENTION=text).outbox_retention_s == seconds


@pytest.mark.parametrize(
    "text", ["soon", "5 weeks", "1h30m", "-5s", "0", "0s", "nan", "inf", "1e3", "s", "9" * 400, "٣s"]
)
def test_invalid_duration_names_its_variable(text):
    error = refusal(environ={"CORRAL_LEADER_LEASE": text})
    assert error.message.startswith("CORRAL_LEADER_LEASE is ")


@given(st.integers(1, 10**7))
def test_duration_survives_being_written_and_read(seconds):
    assert parse_duration_s(format_duration(float(seconds))) == seconds


@pytest.mark.behaviour("SET-6")
def test_every_secret_can_come_from_a_file(tmp_path):
    for doc in describe_all_settings():
        if not doc.secret:
            continue
        model = next(model for model in ALL_MODELS if model.process == doc.process)
        base = {} if doc.process in {"up", "client"} else {**FRONTEND, **REVOKING, "CORRAL_JOIN": "http://f"}
        known = {
            **FRONTEND,
            "CORRAL_REGISTRY_CREDENTIALS": CREDENTIALS,
            "CORRAL_LIBRARY_STORAGE_KEY": "name:secret",
        }
        value = known.get(doc.environment, "SO" + "A" * 56 if "OPERATOR" in doc.environment else SEED)
        base.pop(doc.environment, None)
        path = a_file(tmp_path, value + "\n", doc.key)
        loaded = load_settings(model, environ={**base, f"{doc.environment}_FILE": str(path)})
        assert getattr(loaded.settings, doc.field).get_secret_value() == value
        assert str(loaded.origins[doc.field]) == f"environment {doc.environment}_FILE ({path})"


@pytest.mark.behaviour("SET-6")
def test_secret_given_both_ways_is_refused(tmp_path):
    path = a_file(tmp_path, "ck_other")
    error = refusal(environ={"CORRAL_ADMIN_KEY": "ck_one", "CORRAL_ADMIN_KEY_FILE": str(path)})
    assert error.message.startswith("CORRAL_ADMIN_KEY and CORRAL_ADMIN_KEY_FILE are both set")
    assert "ck_" not in error.message


@pytest.mark.behaviour("SET-6")
def test_flag_wins_over_a_file_named_by_a_variable(tmp_path):
    environ = {"CORRAL_JOIN": "http://f", "CORRAL_TOKEN_FILE": str(a_file(tmp_path, "cj_from_file"))}
    settings = load_settings(WorkerSettings, environ=environ, flags={"token": "cj_from_flag"}).settings
    assert settings.token is not None
    assert settings.token.get_secret_value() == "cj_from_flag"


@pytest.mark.behaviour("SET-6")
def test_missing_empty_binary_or_huge_secret_file_names_the_variable(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge").write_text("x" * 100_000)
    cases = {
        str(tmp_path / "absent"): "cannot be read",
        str(tmp_path): "cannot be read",
        str(a_file(tmp_path, " \n", "empty")): "is empty",
        str(tmp_path / "binary"): "not text",
        str(tmp_path / "huge"): "too large",
    }
    for path, word in cases.items():
        error = refusal(environ={"CORRAL_ADMIN_KEY_FILE": path})
        assert error.message.startswith("CORRAL_ADMIN_KEY_FILE names a file that")
        assert word in error.message


@pytest.mark.behaviour("SET-6")
def test_required_secret_whose_file_is_unreadable_is_reported_once():
    base = {name: value for name, value in FRONTEND.items() if name != "CORRAL_DATABASE_URL"}
    error = refusal(base=base, environ={"CORRAL_DATABASE_URL_FILE": "/nowhere/at/all"})
    assert len(problems(error)) == 1


@pytest.mark.behaviour("SET-7")
@pytest.mark.parametrize(
    "url", ["sqlite:///x.db", "sqlite+aiosqlite:///x", "mysql://u:pw7771@h/d", "postgres://h/d", "h"]
)
def test_database_setting_accepts_only_postgresql(url):
    error = refusal(environ={"CORRAL_DATABASE_URL": url})
    assert error.message.startswith("CORRAL_DATABASE_URL ")
    assert "PostgreSQL" in error.message or "postgresql://" in error.message
    assert "pw7771" not in error.message


@pytest.mark.behaviour("OPS-91")
def test_seeds_of_the_wrong_kind_are_refused_without_quoting_them():
    error = refusal(environ={"CORRAL_NATS_ACCOUNT_SEED": "SU" + "B" * 56, "CORRAL_NATS_OPERATOR_SEED": SEED})
    assert "CORRAL_NATS_ACCOUNT_SEED is not the seed of a NATS account: such a seed starts with SA" in error.message
    assert "CORRAL_NATS_OPERATOR_SEED is not the seed of a NATS operator: such a seed starts with SO" in error.message
    assert "BBBB" not in error.message


@pytest.mark.behaviour("OPS-91")
def test_half_of_what_belongs_together_stops_the_start_and_names_the_variable(tmp_path):
    operator = "SO" + "A" * 56
    for present, missing in (("OPERATOR", "SYSTEM"), ("SYSTEM", "OPERATOR")):
        seed = operator if present == "OPERATOR" else SEED
        error = refusal(environ={f"CORRAL_NATS_{present}_SEED": seed})
        assert error.message.startswith(f"CORRAL_NATS_{present}_SEED is set and CORRAL_NATS_{missing}_SEED is not")
    without_seed = {name: value for name, value in FRONTEND.items() if name != "CORRAL_NATS_ACCOUNT_SEED"}
    assert "CORRAL_NATS_ACCOUNT_SEED" in refusal(base=without_seed).message
    nothing = str(a_file(tmp_path, "\n", "token"))
    error = refusal(WorkerSettings, base={"CORRAL_JOIN": "http://f"}, environ={"CORRAL_TOKEN_FILE": nothing})
    assert "CORRAL_TOKEN_FILE" in error.message


@pytest.mark.behaviour("OPS-91")
@pytest.mark.parametrize("model", [FrontendSettings, WorkerSettings])
def test_certificate_and_its_key_go_together_and_exist(model, tmp_path):
    there = str(a_file(tmp_path, "x"))
    base = {**FRONTEND, "CORRAL_JOIN": "http://f"}
    alone = refusal(model, base=base, environ={"CORRAL_NATS_TLS_CERT": there})
    assert alone.message.startswith("CORRAL_NATS_TLS_CERT is set and CORRAL_NATS_TLS_KEY is not")
    absent = refusal(model, base=base, environ={"CORRAL_NATS_TLS_CA": str(tmp_path / "no.pem")})
    assert absent.message.startswith("CORRAL_NATS_TLS_CA names a file that does not exist")
    both = {**base, "CORRAL_NATS_TLS_CERT": there, "CORRAL_NATS_TLS_KEY": there}
    assert load_settings(model, environ=both).settings.nats_tls_key == Path(there)


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"CORRAL_NODE_LEASE": "29s"}, "one late heartbeat"),
        ({"CORRAL_HEARTBEAT_INTERVAL": "20s"}, "one late heartbeat"),
        ({"CORRAL_NODE_LEASE": "56s"}, "a dead node would get work"),
        ({"CORRAL_LIVENESS_INTERVAL": "20s"}, "within a minute"),
        ({"CORRAL_HEARTBEAT_FLUSH": "11s"}, "after the next one has arrived"),
    ],
)
def test_durations_that_do_not_fit_together_say_why(variables, why):
    error = refusal(environ=variables)
    assert why in error.message
    assert all(name in error.message + (error.hint or "") for name in variables)


def test_bus_address_sent_to_workers_is_ours_without_its_password():
    assert frontend(CORRAL_NATS_URL="nats://u:p@bus:4222").nats_public_url == "nats://bus:4222"
    assert frontend(CORRAL_NATS_PUBLIC_URL="nats://{host}:4222").nats_public_url == "nats://{host}:4222"


@pytest.mark.parametrize(("text", "is_read_only"), [("true", True), ("false", False), ("", False)])
def test_setting_of_read_only_mcp_tools_reaches_the_frontend(text, is_read_only):
    settings = frontend(CORRAL_MCP_READ_ONLY=text)
    assert _make_core_options(settings, "frontend-1", 8080).mcp_read_only is is_read_only


def test_worker_defaults_follow_its_home_and_kind(tmp_path):
    environ = {"CORRAL_JOIN": "http://f/", "CORRAL_WORKER_HOME": str(tmp_path), "CORRAL_NODE_TYPE": "Agent"}
    settings = load_settings(WorkerSettings, environ=environ).settings
    assert settings.models_dir == tmp_path / "models"
    assert settings.backends_dir == tmp_path / "backends"
    assert settings.join == "http://f"
    several = load_settings(WorkerSettings, environ={"CORRAL_JOIN": "http://f:1/, https://g"}).settings
    assert several.join == "http://f:1,https://g"
    assert settings.name.startswith("agent-")
    assert (settings.max_runs, several.max_runs) == (4, 0)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CORRAL_LABELS", "a"),
        ("CORRAL_LABELS", "=b"),
        ("CORRAL_LABELS", "a=1,a=2"),
        ("CORRAL_LABELS", "-x-=1"),
        ("CORRAL_VRAM_BUDGET", "120%"),
        ("CORRAL_JOIN", "frontend:8080"),
        ("CORRAL_JOIN", "ftp://f"),
        ("CORRAL_JOIN", "http://f,b"),
        ("CORRAL_JOIN", "http://f,"),
        ("CORRAL_ADDRESS", "http://me:1"),
        ("CORRAL_ADDRESS", "me:99999"),
        ("CORRAL_HTTP_PORT", "65536"),
        ("CORRAL_MAX_REPLICAS_PER_MODEL", "0"),
        ("CORRAL_NODE_TYPE", "gpu"),
        ("CORRAL_NATS_URL", "http://bus"),
        ("CORRAL_DISK_HEADROOM", "much"),
        ("CORRAL_DISK_HEADROOM", "-1"),
        ("CORRAL_DISK_HEADROOM", "9999999TB"),
        ("CORRAL_MAX_PARALLEL_JOBS", "0"),
        ("CORRAL_ENGINE_PORT", "70000"),
    ],
)
def test_wrong_worker_setting_names_its_variable(variable, value):
    error = refusal(WorkerSettings, base={"CORRAL_JOIN": "http://f"}, environ={variable: value})
    assert error.message.startswith(f"{variable} ")


@pytest.mark.parametrize(("text", "size_bytes"), [("1GiB", 1024**3), ("1.5 gb", 1_500_000_000), ("0", 0), ("7b", 7)])
def test_size_is_written_with_a_unit_or_as_bytes(text, size_bytes):
    environ = {"CORRAL_JOIN": "http://f", "CORRAL_DISK_HEADROOM": text}
    assert load_settings(WorkerSettings, environ=environ).settings.disk_headroom_bytes == size_bytes


@pytest.mark.parametrize("address", ["me", "me:1", "[::1]:80", "10.0.0.1:8000"])
def test_advertised_address_is_a_host_with_or_without_port(address):
    assert (
        load_settings(WorkerSettings, environ={"CORRAL_JOIN": "http://f", "CORRAL_ADDRESS": address}).settings.address
        == address
    )


def test_file_that_is_absent_or_no_toml_is_named(tmp_path):
    absent = refusal(config=tmp_path / "none.toml")
    assert absent.message.startswith("--config names a file that cannot be read")
    broken = refusal(environ={"CORRAL_CONFIG": str(a_file(tmp_path, "[frontend"))})
    assert "is not a TOML file" in broken.message
    flat = refusal(config=a_file(tmp_path, "frontend = 1"))
    assert "is not a table" in flat.message


@pytest.mark.behaviour("SET-10")
def test_settings_are_shown_with_their_origin_and_without_secrets(tmp_path):
    key = a_file(tmp_path, "ck_abcdefghijkl")
    environ = {**FRONTEND, "CORRAL_NATS_URL": "nats://u:hunter22@bus:4222", "CORRAL_ADMIN_KEY_FILE": str(key)}
    shown = {setting.key: setting for setting in redact_settings(load_settings(FrontendSettings, environ=environ))}
    assert shown["admin_key"].value == "••••"
    assert shown["admin_key"].origin == f"environment CORRAL_ADMIN_KEY_FILE ({key})"
    assert shown["nats_url"].value == "nats://u:••••@bus:4222"
    assert shown["node_lease"].value == "45s"
    everything = repr(shown)
    assert all(secret not in everything for secret in ("hunter22", SEED, "ck_abc"))


@pytest.mark.behaviour("SET-10")
def test_secrets_do_not_appear_in_the_printed_form_of_the_model():
    assert "hunter22" not in repr(frontend())
    assert SEED not in str(frontend())


def test_credentials_of_registries_are_a_table_of_hosts_and_never_shown():
    environ = {"CORRAL_JOIN": "http://f:1", "CORRAL_REGISTRY_CREDENTIALS": CREDENTIALS}
    loaded = load_settings(WorkerSettings, environ=environ)
    given = loaded.settings.registry_credentials
    assert given is not None
    assert parse_registry_credentials(given.get_secret_value()) == {
        "registry.example:5000": "robot:pass:word22",
        "[::1]:5000": "a:b",
    }
    shown = {setting.key: setting.value for setting in redact_settings(loaded)}
    assert shown["registry_credentials"] == "••••"
    assert "word22" not in f"{loaded}{shown}"


def test_installer_of_a_worker_gets_the_credentials_and_does_not_print_them(tmp_path):
    environ = {
        "CORRAL_JOIN": "http://f:1",
        "CORRAL_WORKER_HOME": str(tmp_path),
        "CORRAL_REGISTRY_CREDENTIALS": '{"R.example": "robot:word22"}',
    }
    settings = load_settings(WorkerSettings, environ=environ).settings
    place = ControlPlaneEndpoint(urls=("http://f:1",), credential="c", node_id=lambda: None, ticket_key=lambda: "")
    tools = make_real_tools(
        WorkerDeps(settings=settings, clock=SystemClock(), ids=SystemIdGenerator(), rng=Random(1), control_plane=place)
    )
    assert isinstance(tools.installer, DiskInstaller)
    options = tools.installer._options
    assert options.registry_credentials == {"r.example": "robot:word22"}
    assert "word22" not in repr(options)


@pytest.mark.parametrize(
    "text",
    ["robot:word22", '["robot:word22"]', '{"registry.example": "word22"}', '{"https://r.example": "robot:word22"}',
     '{"registry.example": {"user": "word22"}}', '{"registry.example": "robot:"}', '{"robot:word22'],
)  # fmt: skip
def test_credentials_that_are_none_name_the_variable_and_not_the_secret(text):
    error = refusal(WorkerSettings, base={"CORRAL_JOIN": "http://f:1"}, environ={"CORRAL_REGISTRY_CREDENTIALS": text})
    assert error.message.startswith("CORRAL_REGISTRY_CREDENTIALS is not ")
    assert "word22" not in f"{error!r} {error.hint} {error.details}"


def test_every_setting_is_described_and_named_once_per_process():
    docs = describe_all_settings()
    assert {doc.process for doc in docs} == {"frontend", "worker", "up", "client"}
    assert len({(doc.process, doc.flag) for doc in docs}) == len(docs)
    for doc in docs:
        assert doc.description.endswith(".")
        assert doc.environment in list_known_variables()
        assert doc.required or doc.default is not None or doc.kind in {"secret", "path", "labels"}


def test_up_has_the_settings_of_the_local_cluster(tmp_path):
    settings = load_settings(UpSettings, environ={"CORRAL_HOME": str(tmp_path), "CORRAL_DETACH": "true"}).settings
    assert (settings.home, settings.detach, settings.port) == (tmp_path, True, 8080)


def test_secrets_key_file_is_read_at_the_start(tmp_path: Path) -> None:
    path = a_file(tmp_path, f"# the second opens what it has sealed\n{'1' * 64}\n{'2' * 64}\n", "secrets.key")
    settings = frontend(CORRAL_SECRETS_KEY_FILE=str(path))
    assert settings.secrets_key_file == path
    assert [key.secret for key in read_sealing_keys(path)] == [b"\x11" * 32, b"\x22" * 32]
    assert frontend().secrets_key_file is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "which has no key"),
        (b"1" * 63, "which has a line 1 that is not a key"),
        (b"\xff" * 32, "which is not text"),
        (b"1" * 64 + b"\n" * 20_000, "which is too large for a key file"),
    ],
)
def test_secrets_key_file_with_anything_else_stops_the_start(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "secrets.key"
    path.write_bytes(content)
    error = refusal(environ={"CORRAL_SECRETS_KEY_FILE": str(path)})
    assert error.message.startswith(f"CORRAL_SECRETS_KEY_FILE names {path}, {sentence}")
    assert "1111" not in error.message
    absent = refusal(environ={"CORRAL_SECRETS_KEY_FILE": str(tmp_path / "absent")})
    assert absent.message.startswith("CORRAL_SECRETS_KEY_FILE names a file that does not exist")


def test_time_of_runs_is_left_to_their_kinds_unless_it_is_given() -> None:
    assert frontend().run_timeout_s is None
    assert frontend(CORRAL_RUN_TIMEOUT="20m").run_timeout_s == 1200.0


def test_grace_of_mcp_servers_is_a_duration_and_reaches_the_runner() -> None:
    assert WorkerSettings.model_validate({"join": "http://127.0.0.1:8080"}).run_mcp_grace_s == SERVER_GRACE_S
    settings = WorkerSettings.model_validate({"join": "http://127.0.0.1:8080", "run_mcp_grace_s": "20s"})
    assert make_runner_variables(settings)[SERVER_GRACE_VARIABLE] == "20.0"


def test_limits_of_programs_are_sizes_and_have_a_least_value():
    settings = WorkerSettings.model_validate({"join": "http://127.0.0.1:8080", "run_memory_bytes": "500MB"})
    assert (settings.run_user, settings.run_memory_bytes, settings.run_file_bytes) == (None, 500_000_000, 1024**3)
    with pytest.raises(ValueError, match="run_file_bytes"):
        WorkerSettings.model_validate({"join": "http://127.0.0.1:8080", "run_file_bytes": "1000"})
