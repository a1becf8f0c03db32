"""Parsers take any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.worker.hardware import parsers
from corral.worker.hardware.reading import normalise_vram

any_text = st.text(max_size=400)
# Text with the marks that the parsers look for, so that they get past the first line.
marks = (
    *("GPU0:\n", "deviceType = PHYSICAL_DEVICE_TYPE_DISCRETE_GPU\n", "deviceName = ", ", ", '"', "[N/A]", "0", "-1"),
    *("0::/", ":memory:", "\n", "\0", "R36 (release), REVISION: ", "10de  ", "\t2684  ", "model name : ", "9" * 30),
)
shaped = st.lists(st.sampled_from(marks) | any_text, max_size=20).map("".join)


@given(any_text | st.integers(-(1 << 70), 1 << 70).map(str))
def test_number_is_none_or_not_negative(text):
    number = parsers.parse_whole_number(text)

    assert number is None or 0 <= number < 10**20


@given(shaped)
def test_parsers_raise_on_no_text(text):
    parsers.parse_key_values(text, ":")
    parsers.parse_cpu_model(text)
    group = parsers.parse_memory_cgroup(text)
    levels = parsers.list_cgroup_levels(group.path if group else text)
    assert levels[-1] == ""
    assert all(".." not in level.split("/") for level in levels)
    for row in parsers.parse_nvidia_smi_rows(text):
        assert row.index >= 0
        assert row.memory_bytes_total is None or row.memory_bytes_total >= 0
    parsers.parse_vulkan_devices(text)
    parsers.find_pci_device_name(text, "10de", "2684")
    parsers.parse_l4t_release(text)
    parsers.parse_compute_capability(text)
    parsers.parse_cuda_majors((text,))


@given(st.binary(max_size=64))
def test_metrics_header_parser_accepts_any_bytes(content):
    revision = parsers.parse_amd_metrics_revision(content)

    assert revision is None or 0 <= revision <= 255


@pytest.mark.behaviour("HW-2")
@given(st.none() | st.integers(-(1 << 64), 1 << 64), st.none() | st.integers(-(1 << 64), 1 << 64))
def test_vram_is_known_and_ordered_or_unknown(total, free):
    seen_total, seen_free = normalise_vram(total, free)

    assert seen_total is None or seen_total > 0
    assert seen_free is None or (seen_total is not None and 0 <= seen_free <= seen_total)


def test_nvidia_smi_value_not_available_is_unknown():
    (row,) = parsers.parse_nvidia_smi_rows("0, NVIDIA GB10, GPU-2dee1e25, [N/A], [N/A], 12.1, 580.95.05\n")

    assert (row.memory_bytes_total, row.memory_bytes_free, row.compute_capability) == (None, None, "12.1")


def test_error_message_of_nvidia_smi_is_no_gpu():
    assert (
        parsers.parse_nvidia_smi_rows("NVIDIA-SMI has failed because it couldn't communicate with the driver.\n") == ()
    )


def test_software_renderer_is_no_gpu():
    text = "GPU0:\n\tdeviceType = PHYSICAL_DEVICE_TYPE_CPU\n\tdeviceName = llvmpipe\n"

    assert parsers.parse_vulkan_devices(text) == ()


def test_version_one_holds_the_memory_controller_on_a_mixed_system():
    group = parsers.parse_memory_cgroup("5:cpu,cpuacct:/x\n4:memory:/docker/4f\n0::/system.slice\n")

    assert group == parsers.CgroupPath(version=1, path="/docker/4f")


def test_levels_lead_from_the_group_to_the_root():
    assert parsers.list_cgroup_levels("/a/b") == ("/a/b", "/a", "")
    assert parsers.list_cgroup_levels("/") == ("",)


def test_toolkit_search_counts_only_directories_of_cuda_versions():
    assert parsers.parse_cuda_majors(("cuda", "cuda-12", "cuda-13.0", "cuda-samples", "cuda-12.4-old", "xcuda-11")) == {
        12,
        13,
    }
