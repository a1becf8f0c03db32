"""The environment variables of the frontend and the worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.embedded.child_process import (
    BusAddress,
    HttpEndpoint,
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
        "CORRAL_LIBRARY_DIR": "/home/one/.corral/library",
        "CORRAL_STATE_DIR": "/home/one/.corral/frontend",
    }


def test_variable_and_its_file_are_never_both_set() -> None:
    mine = {"CORRAL_ADMIN_KEY": "ck_mine", "CORRAL_DATABASE_URL": "postgresql://x", "CORRAL_NATS_ACCOUNT_SEED": "SAX"}
    environment = make_frontend_environment(mine, home=HOME, endpoint=HERE, bus=OWN)
    assert not mine.keys() & environment.keys()


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
def test_worker_environment_omits_what_only_a_frontend_needs() -> None:
    mine = {
        "CORRAL_DATABASE_URL": "postgresql://x",
        "CORRAL_DATABASE_URL_FILE": "/f",
        "CORRAL_ADMIN_KEY": "ck_mine",
        "CORRAL_KEY": "ck_mine",
        "CORRAL_HUB_TOKEN": "hf_mine",
        "CORRAL_LIBRARY_STORAGE_KEY": "name:secret",
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
