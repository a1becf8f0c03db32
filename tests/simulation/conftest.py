"""Options and fixtures of the simulator: how many seeds, which one, and the database it runs on."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.simulation.databases import make_template
from tests.simulation.postgres import postgres_server

DEFAULT_SEEDS = 3
# Each break takes a run of its own to be caught: a few of them every time, all of them with many seeds.
DEFAULT_BREAKS = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=None, help="simulate seeds 0 to N-1 in every test that takes seeds")
    parser.addoption("--seed", type=int, default=None, help="simulate this seed only: replays a failure")


def pytest_configure(config: pytest.Config) -> None:
    words = (
        "how many seeds this test takes unless configured otherwise; the seeds that found a defect run with any number"
    )
    config.addinivalue_line("markers", f"seeds(number, found=()): {words}")
    config.addinivalue_line("markers", "breaks(list): the deliberate defects that this test takes one by one")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # The options are unknown when pytest was not given this folder by name.
    if "broken" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("breaks")
        assert marker is not None, "a test of breaks names them: @pytest.mark.breaks(BREAKS)"
        is_long = metafunc.config.getoption("seeds", default=None) is not None
        breaks = marker.args[0] if is_long else marker.args[0][:DEFAULT_BREAKS]
        metafunc.parametrize("broken", breaks, ids=[each.name.replace(" ", "-") for each in breaks])
    if "seed" not in metafunc.fixturenames:
        return
    one = metafunc.config.getoption("seed", default=None)
    own = metafunc.definition.get_closest_marker("seeds")
    number = metafunc.config.getoption("seeds", default=None) or (own.args[0] if own else DEFAULT_SEEDS)
    found = own.kwargs.get("found", ()) if own else ()
    seeds = sorted({*range(number), *found}) if one is None else [one]
    metafunc.parametrize("seed", seeds, ids=[f"seed{seed}" for seed in seeds])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if report.failed and "seed" in parameters:
        test = item.nodeid.partition("[")[0]
        command = f".venv/bin/python -m pytest '{test}' --seed={parameters['seed']}"
        report.sections.append(("replay this seed", command))
    return report


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a PostgreSQL server for the whole test session, and yield its `host:port`."""
    with postgres_server(tmp_path_factory.mktemp("postgres")) as address:
        yield address


@pytest.fixture(scope="session")
def cluster_server(postgres: str) -> str:
    """Return the same server, with the template that simulated clusters are made of."""
    make_template(postgres)
    return postgres
