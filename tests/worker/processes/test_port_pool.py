"""The pool of ports: whose, for how long, and how many it remembers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.worker.processes.port_pool import AFFINITY_S, QUARANTINE_S, PortChoice, PortPool, PortRange, parse_range
from corral.worker.processes.process_control import NoFreePort

BASE = 50_000


def pool(size: int = 3, *, taken: frozenset[int] = frozenset()) -> PortPool:
    return PortPool(range=PortRange(base=BASE, last=BASE + size - 1), is_bindable=lambda port: port not in taken)


@pytest.mark.behaviour("OPS-77")
def test_released_port_rests_for_fifteen_seconds_even_for_its_owner():
    ports = pool()
    first = ports.allot("a#0", 0.0).port
    ports.release("a#0", first, 100.0)
    early = ports.allot("a#0", 100.0 + QUARANTINE_S - 0.1)
    assert early.port != first
    ports.release("a#0", early.port, 115.0)
    # Its last port is another one by now; the first has no owner any more and is anybody's.
    assert ports.allot("b#0", 100.0 + QUARANTINE_S).port == first


@pytest.mark.behaviour("OPS-77")
def test_port_goes_back_to_its_last_owner_only_for_five_minutes():
    ports = pool()
    port = ports.allot("a#0", 0.0).port
    ports.release("a#0", port, 0.0)
    other = ports.allot("b#0", QUARANTINE_S + 1)
    assert other.port != port
    back = ports.allot("a#0", QUARANTINE_S + 2)
    assert (back.port, back.choice) == (port, PortChoice.OWN)
    ports.release("a#0", port, 100.0)
    assert ports.allot("c#0", 100.0 + AFFINITY_S).port == port


@pytest.mark.behaviour("OPS-77")
def test_port_of_an_absent_owner_is_taken_when_the_range_is_full_and_the_loser_is_named():
    ports = pool(2)
    mine = ports.allot("a#0", 0.0).port
    ports.allot("b#0", 0.0)
    ports.release("a#0", mine, 0.0)
    stolen = ports.allot("c#0", QUARANTINE_S)
    assert (stolen.port, stolen.choice, stolen.previous_owner) == (mine, PortChoice.STOLEN, "a#0")


@pytest.mark.behaviour("OPS-78")
def test_thousand_crashes_use_no_more_ports_than_rest_at_one_time():
    ports = PortPool(range=PortRange(base=BASE, last=65_535))
    used = set()
    for second in range(1_000):
        port = ports.allot("a#0", float(second)).port
        used.add(port)
        ports.release("a#0", port, float(second))
    assert len(used) <= QUARANTINE_S + 2
    assert ports.count_remembered() <= QUARANTINE_S + 2


@pytest.mark.behaviour("OPS-79")
def test_full_port_range_is_refused_with_its_numbers():
    ports = pool(3)
    ports.allot("a#0", 0.0)
    ports.allot("b#0", 0.0)
    ports.release("c#0", ports.allot("c#0", 0.0).port, 0.0)
    with pytest.raises(NoFreePort, match="No port is free in 50000-50002: 2 running, 1 quarantined"):
        ports.allot("d#0", 1.0)
    assert ports.allot("d#0", QUARANTINE_S).port == BASE + 2


@pytest.mark.behaviour("OPS-79")
@pytest.mark.parametrize(
    ("base", "maximum", "expected", "warns"),
    [
        (50_000, None, (50_000, 65_535), False),
        (50_000, 50_010, (50_000, 50_010), False),
        (50_000, 70_000, (50_000, 65_535), True),
        (50_000, 49_999, (50_000, 65_535), True),
        (50_000, 0, (50_000, 65_535), True),
        (0, None, (50_100, 65_535), True),
        (70_000, 80_000, (50_100, 65_535), True),
    ],
)
def test_bad_limit_never_blocks_all_starts(base: int, maximum: int | None, expected: tuple[int, int], warns: bool):
    found, warning = parse_range(base, maximum)
    assert (found.base, found.last) == expected
    assert bool(warning) is warns


def test_ports_of_other_programs_are_left_out_and_used_when_they_are_free_again():
    taken = {BASE}
    ports = PortPool(range=PortRange(base=BASE, last=BASE + 1), is_bindable=lambda port: port not in taken)
    assert ports.allot("a#0", 0.0).port == BASE + 1
    with pytest.raises(NoFreePort):
        ports.allot("b#0", 0.0)
    taken.clear()
    assert ports.allot("b#0", 0.0).port == BASE


def test_port_is_given_back_only_by_its_owner_and_once():
    ports = pool()
    port = ports.allot("a#0", 0.0).port
    ports.release("b#0", port, 0.0)
    assert ports.find_owner(port) == "a#0"
    ports.release("a#0", port, 0.0)
    ports.release("a#0", port, 10.0)
    assert ports.allot("a#0", QUARANTINE_S).port == port


def test_held_port_is_not_given_to_another_owner():
    ports = pool(2)
    ports.hold("old#0", BASE)
    assert ports.allot("a#0", 0.0).port == BASE + 1


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.floats(min_value=0, max_value=200)), max_size=80)
)
def test_port_has_one_owner_and_a_quarantine_between_owners(
    steps: list[tuple[str, bool, float]],
):
    ports = pool(4)
    now_s, held, released_at = 0.0, dict[str, int](), dict[int, float]()
    for owner, is_release, pause_s in steps:
        now_s += pause_s
        if is_release and owner in held:
            port = held.pop(owner)
            ports.release(owner, port, now_s)
            released_at[port] = now_s
        elif owner not in held:
            try:
                port = ports.allot(owner, now_s).port
            except NoFreePort:
                assert len(held) + ports.count_quarantined(now_s) == 4
                continue
            assert port not in held.values()
            assert now_s - released_at.get(port, -1e9) >= QUARANTINE_S
            held[owner] = port
        assert ports.count_running() == len(held)
        assert ports.count_remembered() <= 4
