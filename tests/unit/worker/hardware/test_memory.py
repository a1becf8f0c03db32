"""RAM as this process may use it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.worker.hardware.detect import read_memory
from corral.worker.hardware.hardware_source import HardwareRecording, RecordedHardware
from tests.unit.worker.hardware.helpers import GIB, recorded

PHYSICAL = (64 * GIB - 1234567168, 50 * GIB)


@pytest.mark.parametrize(
    ("name", "total", "available"),
    [
        ("container-cgroup-v2", 8 * GIB, 6 * GIB),
        # 16 GiB for the pod, of which 12 are in use; the slice above has only 1 GiB left.
        ("container-cgroup-v2-nested", 16 * GIB, 1 * GIB),
        ("container-cgroup-v1", 4 * GIB, GIB // 2),
    ],
)
def test_containers_limit_is_the_memory_and_its_own_use_is_taken_off(name, total, available):
    memory = read_memory(recorded(name))

    assert (memory.total_bytes, memory.available_bytes) == (total, available)


@pytest.mark.parametrize(
    "name", ["container-cgroup-v2-unlimited", "container-cgroup-v1-unlimited", "nvidia-rtx-4090", "nvidia-wsl"]
)
def test_memory_is_the_machines_without_a_limit(name):
    memory = read_memory(recorded(name))

    assert (memory.total_bytes, memory.available_bytes) == PHYSICAL


def test_group_without_statistics_counts_all_of_its_use():
    machine = recorded("container-cgroup-v2")
    del machine.recording.files["/sys/fs/cgroup/memory.stat"]

    assert read_memory(machine).available_bytes == 5 * GIB


def test_group_outside_our_view_falls_back_to_the_root_that_we_see():
    machine = recorded("container-cgroup-v2")
    machine.recording.files["/proc/self/cgroup"] = "0::/../../other\n"

    assert read_memory(machine).total_bytes == 8 * GIB


def test_machine_busier_than_its_container_leaves_only_what_it_has():
    machine = recorded("container-cgroup-v2")
    machine.recording.memory["available_bytes"] = GIB

    assert read_memory(machine).available_bytes == GIB


@pytest.mark.behaviour("HW-2")
@given(
    physical=st.tuples(st.integers(0, 1 << 45), st.integers(0, 1 << 45)),
    group=st.sampled_from(["0::/\n", "0::/a/b\n", "4:memory:/a\n0::/\n", "4:cpu,memory:/a\n"]) | st.text(),
    limit=st.integers(0, 1 << 63).map(str) | st.just("max") | st.text(),
    usage=st.integers(0, 1 << 63).map(str) | st.text(),
    statistics=st.integers(0, 1 << 63).map(lambda n: f"inactive_file {n}\ntotal_inactive_file {n}\n") | st.text(),
)
def test_whatever_the_files_say_available_is_between_zero_and_total(physical, group, limit, usage, statistics):
    files = {"/proc/self/cgroup": group.encode("utf-8", "replace").decode()}
    for directory in ("", "/memory", "/memory/a", "/a", "/a/b"):
        files |= {
            f"/sys/fs/cgroup{directory}/{name}": text.encode("utf-8", "replace").decode()
            for name, text in {
                "memory.max": limit,
                "memory.limit_in_bytes": limit,
                "memory.current": usage,
                "memory.usage_in_bytes": usage,
                "memory.stat": statistics,
            }.items()
        }
    machine = RecordedHardware(
        HardwareRecording(
            platform={"system": "linux", "architecture": "x86_64"},
            memory={"total_bytes": physical[0], "available_bytes": physical[1]},
            files=files,
        )
    )

    memory = read_memory(machine)

    assert 0 <= memory.available_bytes <= memory.total_bytes <= physical[0]
