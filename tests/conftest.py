"""Fixtures for every folder. Real services only; each test gets a database of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from corral.store.database import Database
from tests.simulation.postgres import postgres_server
from tests.support.databases import fresh_database, make_template
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.watchdog import pytest_configure, pytest_exception_interact, pytest_runtest_protocol

__all__ = ["pytest_configure", "pytest_exception_interact", "pytest_runtest_protocol"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background. Programs that tests start would inherit it, and those that get a Ctrl-C would not hear.
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.default_int_handler)


# No test asserts how long something takes: the machine is busy with others.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


# Half a million objects are there before the first test, and stay. To look through them again and again would be a
# sixth of the time of all tests.
YOUNG_OBJECTS = 20_000


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a PostgreSQL server that lives as long as the session, with a migrated template."""
    with postgres_server(tmp_path_factory.mktemp("postgres")) as address:
        asyncio.run(make_template(address))
        yield address


@pytest.fixture
async def database_url(postgres: str) -> AsyncIterator[str]:
    async with fresh_database(postgres) as url:
        yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    """A frontend whose bus is away."""
    async with running_frontend(database_url) as running:
        yield running
