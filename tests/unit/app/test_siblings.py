"""Metrics of several processes on one port: one page, with the numbers of all."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from corral.app import process_group as module
from corral.app.process_group import MetricsPeers, label_page, merge_pages


@pytest.fixture
def folder() -> Iterator[Path]:
    # The name of a socket may have a hundred letters, fewer than some folders of tests.
    with tempfile.TemporaryDirectory(prefix="corral-") as made:
        yield Path(made)


def a_page(count: int, model: str = 'a "model" {of} mine') -> bytes:
    registry = CollectorRegistry()
    Counter("requests", "Requests.", ["model"], registry=registry).labels(model).inc(count)
    Gauge("leader", "Leads.", registry=registry).set(count % 2)
    Histogram("seconds", "Time. # HELP is a word.", registry=registry).observe(0.2)
    return generate_latest(registry)


def sums(page: bytes) -> dict[str, float]:
    """By name, over all processes; every family stands there once."""
    families = list(text_string_to_metric_families(page.decode()))
    assert len({family.name for family in families}) == len(families)
    found: dict[str, float] = {}
    for family in families:
        for sample in family.samples:
            assert sample.labels["process"].isdecimal()
            found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def sibling(folder: Path, number: int, count: int, parent_pid: int | None = None) -> MetricsPeers:
    return MetricsPeers(folder, number, lambda: a_page(count), parent_pid or os.getppid())


def test_pages_are_one_page_with_a_label_on_each_number() -> None:
    page = merge_pages([label_page(a_page(3), 1), label_page(a_page(4), 2)])
    found = sums(page)
    assert (found["requests_total"], found["leader"], found["seconds_count"]) == (7, 1, 2)
    (requests,) = [one for one in text_string_to_metric_families(page.decode()) if one.name == "requests"]
    by_process = {sample.labels["process"]: sample for sample in requests.samples if sample.name == "requests_total"}
    assert {number: sample.value for number, sample in by_process.items()} == {"1": 3, "2": 4}
    assert by_process["1"].labels["model"] == 'a "model" {of} mine'


async def test_any_sibling_answers_with_the_metrics_of_all_running_siblings(folder: Path) -> None:
    one, two, ten = (sibling(folder, number, count) for number, count in ((1, 5), (2, 6), (10, 7)))
    await one.start()
    assert sums(await one.collect_pages())["requests_total"] == 5
    await two.start()
    await ten.start()
    for sibling_asking in (one, two, ten):
        assert sums(await sibling_asking.collect_pages())["requests_total"] == 18
    await two.stop()
    assert sums(await ten.collect_pages())["requests_total"] == 12
    # Started again in its place, also after a kill that left the socket behind.
    (folder / "2.sock").touch()
    two = sibling(folder, 2, 1)
    await two.start()
    assert sums(await one.collect_pages())["requests_total"] == 13
    for each in (one, two, ten):
        await each.stop()
    assert list(folder.iterdir()) == []


async def test_metrics_page_omits_dead_and_silent_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_LIMIT_S", 0.05)
    one = sibling(folder, 1, 5)
    await one.start()
    (folder / "2.sock").touch()
    (folder / "other.sock").touch()
    # It listens, and nobody accepts.
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(folder / "3.sock"))
        silent.listen()
        assert sums(await one.collect_pages())["requests_total"] == 5
    await one.stop()


async def test_folder_that_cannot_be_used_leaves_the_own_page(folder: Path) -> None:
    lonely = sibling(folder / "gone", 1, 5)
    await lonely.start()
    assert sums(await lonely.collect_pages())["requests_total"] == 5
    await lonely.stop()


async def test_orphans_leave_no_folder_behind(tmp_path: Path) -> None:
    made = Path(tempfile.mkdtemp(prefix="corral-"))
    one, two = (sibling(made, number, 1, parent_pid=-1) for number in (1, 2))
    await one.start()
    await two.start()
    await one.stop()
    assert made.exists()
    await two.stop()
    assert not made.exists()
