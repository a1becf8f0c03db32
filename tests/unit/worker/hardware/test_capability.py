"""One word for what a machine can run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.worker.hardware import detect_hardware
from corral.worker.hardware.detect import CapabilityFacts, decide_capability
from tests.unit.worker.hardware.helpers import GIB, recorded

CARD = CapabilityFacts(
    system="linux",
    architecture="x86_64",
    gpu_vendor="nvidia",
    vram_bytes_total=24 * GIB,
    unified_memory=False,
    cuda_toolkits=frozenset(),
    cuda_driver=None,
)


def word(**changes: object) -> str:
    return decide_capability(replace(CARD, **changes), ())[0]  # type: ignore[arg-type]


@pytest.mark.behaviour("HW-6")
def test_setting_wins_over_the_file_and_the_file_over_detection():
    machine = recorded("nvidia-rtx-4090")
    assert detect_hardware(machine, "vulkan").capability == "vulkan"

    machine.recording.files["/run/corral/capability"] = "nvidia-cuda-13\n"
    assert detect_hardware(machine, None).capability == "nvidia-cuda-13"
    assert detect_hardware(machine, "  vulkan ").capability == "vulkan"

    machine.recording.files["/etc/word"] = "amd\n"
    assert detect_hardware(machine, "", capability_file="/etc/word").capability == "amd"


@pytest.mark.behaviour("HW-6")
@pytest.mark.parametrize("text", ["two words", "a\nb", "-dash", "x" * 65, "naïve"])
def test_override_that_is_no_word_is_passed_over_with_a_warning(text):
    machine = recorded("nvidia-rtx-4090")
    machine.recording.files["/run/corral/capability"] = text

    from_file = detect_hardware(machine, None)
    from_setting = detect_hardware(recorded("nvidia-rtx-4090"), text)

    assert (from_file.capability, from_setting.capability) == ("nvidia-cuda-12", "nvidia-cuda-12")
    assert "/run/corral/capability" in from_file.warnings[0]
    assert "settings" in from_setting.warnings[0]


@pytest.mark.behaviour("HW-6")
def test_empty_capability_file_says_nothing():
    machine = recorded("nvidia-rtx-4090")
    machine.recording.files["/run/corral/capability"] = "\n"

    reading = detect_hardware(machine, None)

    assert (reading.capability, reading.warnings) == ("nvidia-cuda-12", ())


@pytest.mark.parametrize(
    ("toolkits", "driver", "expected"),
    [
        ({13, 12}, 13, "nvidia-cuda-13"),
        ({12}, 13, "nvidia-cuda-12"),
        ({13, 12}, 12, "nvidia-cuda-12"),
        ({13}, 12, "nvidia-cuda-12"),
        ({13, 12}, None, "nvidia-cuda-13"),
        (set(), 13, "nvidia-cuda-13"),
        (set(), 12, "nvidia-cuda-12"),
        (set(), 14, "nvidia-cuda-13"),
        ({11}, 11, "nvidia"),
        ({12}, 11, "nvidia"),
        (set(), None, "nvidia"),
    ],
)
def test_cuda_is_the_newest_toolkit_that_the_driver_can_run(toolkits, driver, expected):
    assert word(cuda_toolkits=frozenset(toolkits), cuda_driver=driver) == expected


@pytest.mark.parametrize(
    ("toolkits", "expected"),
    [({12, 13}, "nvidia-l4t-cuda-13"), ({12}, "nvidia-l4t-cuda-12"), ({11}, "nvidia-l4t"), (set(), "nvidia-l4t")],
)
def test_nvidia_on_arm_is_named_by_its_toolkit_however_small(toolkits, expected):
    assert (
        word(architecture="arm64", cuda_toolkits=frozenset(toolkits), vram_bytes_total=4 * GIB, cuda_driver=13)
        == expected
    )


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "intel", "vulkan"])
def test_four_gibibytes_are_too_little_and_one_byte_more_is_enough(vendor):
    assert word(gpu_vendor=vendor, vram_bytes_total=4 * GIB, cuda_driver=12) == "default"
    expected = "nvidia-cuda-12" if vendor == "nvidia" else vendor
    assert word(gpu_vendor=vendor, vram_bytes_total=4 * GIB + 1, cuda_driver=12) == expected


def test_unknown_memory_is_not_small_unless_the_gpu_has_none_of_its_own():
    assert word(gpu_vendor="intel", vram_bytes_total=None) == "intel"
    assert word(gpu_vendor="intel", vram_bytes_total=None, unified_memory=True) == "default"


def test_machine_without_gpu_is_default_even_with_a_cuda_toolkit():
    assert word(gpu_vendor=None, vram_bytes_total=None, cuda_toolkits=frozenset({13})) == "default"
