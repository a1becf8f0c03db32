"""The environment variables of the frontend and the worker."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from corral.app.settings import WorkerSettings, load_settings
from corral.domain.node import NodeType
from corral.embedded.child_process import (
    BusAddress,
    HttpEndpoint,
    make_agent_environment,
    make_frontend_environment,
    make_worker_environment,
)
from corral.embedded.home import HomeLayout

HOME = HomeLayout(Path("/home/one/.corral"))
HERE = HttpEndpoint(host="127.0.0.1", port=8080)
OWN = BusAddress(nats_url="nats://127.0.0.1:1", nats_port=1, is_own_bus=True)
GIVEN = BusAddress(nats_url="nats://bus:4222", nats_port=0, is_own_bus=False)


def test_frontend_environment_contains_every_address_and_file() -> None:
    environment = make_frontend_environment({"PATH": "/bin"}, home=HOME, endpoint=HERE, bus=OWN)
    assert environment == {
        "PATH": "/bin",
        "PYTHONUNBUFFERED": "1",
        "CORRAL_DATABASE_URL_FILE": "/home/one/.corral/secrets/database-url",
        "CORRAL_NATS_URL": "nats://127.0.0.1:1",
        "CORRAL_NATS_ACCOUNT_SEED_FILE": "/home/one/.corral/secrets/nats-account.seed",
        "CORRAL_NATS_OPERATOR_SEED_FILE": "/home/one/.corral/secrets/nats-operator.seed",
        "CORRAL_NATS_SYSTEM_SEED_FILE": "/home/one/.corral/secrets/nats-system.seed",
        "CORRAL_ADMIN_KEY_FILE": "/home/one/.corral/admin.key",
        "CORRAL_LOCAL_JOIN_TOKEN_FILE": "/home/one/.corral/secrets/local-join-token",
        "CORRAL_HOST": "127.0.0.1",
        "CORRAL_PORT": "8080",
        "CORRAL_SECRETS_KEY_FILE": "/home/one/.corral/secrets.key",
        "CORRAL_LIBRARY_DIR": "/home/one/.corral/library",
        "CORRAL_STATE_DIR": "/home/one/.corral/frontend",
    }


def test_variable_and_its_file_are_never_both_set() -> None:
    mine = {"CORRAL_ADMIN_KEY": "ck_mine", "CORRAL_DATABASE_URL": "postgresql://x", "CORRAL_NATS_ACCOUNT_SEED": "SAX"}
    environment = make_frontend_environment(mine, home=HOME, endpoint=HERE, bus=OWN)
    assert not mine.keys() & environment.keys()


@pytest.mark.behaviour("SEC-8")
@pytest.mark.parametrize(("given", "used"), [("/mine", "/mine"), ("", "/home/one/.corral/secrets.key")])
def test_frontend_gets_the_users_own_key_file_for_secrets_if_one_is_set(given: str, used: str) -> None:
    environment = make_frontend_environment({"CORRAL_SECRETS_KEY_FILE": given}, home=HOME, endpoint=HERE, bus=OWN)
    assert environment["CORRAL_SECRETS_KEY_FILE"] == used


@pytest.mark.behaviour("UP-9")
def test_frontend_gets_the_users_own_seeds_with_a_given_bus() -> None:
    mine = {"CORRAL_NATS_ACCOUNT_SEED": "SAX"}
    environment = make_frontend_environment(mine, home=HOME, endpoint=HERE, bus=GIVEN)
    assert environment["CORRAL_NATS_ACCOUNT_SEED"] == "SAX"
    assert "CORRAL_NATS_ACCOUNT_SEED_FILE" not in environment


def test_frontend_environment_gives_remote_workers_the_bus_address_by_the_host_that_they_used() -> None:
    everywhere = HttpEndpoint(host="0.0.0.0", port=8080)
    environment = make_frontend_environment({}, home=HOME, endpoint=everywhere, bus=OWN)
    assert environment["CORRAL_NATS_PUBLIC_URL"] == "nats://{host}:1"
    assert everywhere.url == "http://127.0.0.1:8080"
    assert HttpEndpoint(host="::1", port=1).url == "http://[::1]:1"


@pytest.mark.behaviour("UP-17")
@pytest.mark.behaviour("SEC-8")
def test_worker_environment_omits_what_only_a_frontend_needs() -> None:
    mine = {
        "CORRAL_DATABASE_URL": "postgresql://x",
        "CORRAL_DATABASE_URL_FILE": "/f",
        "CORRAL_ADMIN_KEY": "ck_mine",
        "CORRAL_KEY": "ck_mine",
        "CORRAL_HUB_TOKEN": "hf_mine",
        "CORRAL_LIBRARY_STORAGE_KEY": "name:secret",
        "CORRAL_SECRETS_KEY_FILE": "/f",
        "CORRAL_NATS_OPERATOR_SEED_FILE": "/f",
        "CORRAL_NATS_SYSTEM_SEED_FILE": "/f",
        "CORRAL_TOKEN": "cj_mine",
        "CORRAL_LABELS": "rack=2",
    }
    environment = make_worker_environment(
        mine, home=HOME, frontend=HERE, endpoint=HttpEndpoint(host="127.0.0.1", port=9000)
    )
    assert environment == {
        "CORRAL_LABELS": "rack=2",
        "PYTHONUNBUFFERED": "1",
        "CORRAL_JOIN": "http://127.0.0.1:8080",
        "CORRAL_TOKEN_FILE": "/home/one/.corral/secrets/local-join-token",
        "CORRAL_WORKER_HOME": "/home/one/.corral/worker",
        "CORRAL_HTTP_HOST": "127.0.0.1",
        "CORRAL_HTTP_PORT": "9000",
        "CORRAL_SHARED_MODELS_DIR": "/home/one/.corral/library",
    }


@pytest.mark.behaviour("UP-17")
@pytest.mark.behaviour("UP-21")
def test_agent_environment_is_that_of_the_worker_without_its_name_folder_and_engines() -> None:
    mine = {
        "CORRAL_DATABASE_URL": "postgresql://x",
        "CORRAL_NAME": "mine",
        "CORRAL_ADDRESS": "10.0.0.7:9000",
        "CORRAL_MODELS_DIR": "/models",
        "CORRAL_PREFETCH_MODELS": "smol",
        "CORRAL_MAX_RUNS": "8",
        "CORRAL_LABELS": "rack=2",
    }
    environment = make_agent_environment(
        mine, home=HOME, frontend=HERE, endpoint=HttpEndpoint(host="127.0.0.1", port=9001)
    )
    assert environment == {
        "CORRAL_LABELS": "rack=2",
        "CORRAL_MAX_RUNS": "8",
        "PYTHONUNBUFFERED": "1",
        "CORRAL_JOIN": "http://127.0.0.1:8080",
        "CORRAL_TOKEN_FILE": "/home/one/.corral/secrets/local-join-token",
        "CORRAL_NODE_TYPE": "agent",
        "CORRAL_NAME": f"agent-{socket.gethostname()}",
        "CORRAL_WORKER_HOME": "/home/one/.corral/agent",
        "CORRAL_HTTP_HOST": "127.0.0.1",
        "CORRAL_HTTP_PORT": "9001",
        "CORRAL_PREFETCH_BACKENDS": ",",
        "CORRAL_PREFETCH_MODELS": ",",
    }


def test_settings_of_the_agent_worker_are_valid_although_a_file_has_a_prefetch_list(tmp_path: Path) -> None:
    file = tmp_path / "corral.toml"
    file.write_text('[worker]\nprefetch_models = "smol"\nname = "mine"\nmax_runs = 9\n')
    environment = make_agent_environment(
        {"CORRAL_CONFIG": str(file)}, home=HOME, frontend=HERE, endpoint=HttpEndpoint(host="127.0.0.1", port=9001)
    )
    del environment["CORRAL_TOKEN_FILE"]
    settings = load_settings(WorkerSettings, environ=environment).settings
    assert (settings.node_type, settings.prefetch_models, settings.max_runs) == (NodeType.AGENT, "", 9)
    assert settings.name.startswith("agent-")
