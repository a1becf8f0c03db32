"""Detection on recorded machines."""

from __future__ import annotations

import pytest

from corral.worker.hardware import detect_hardware
from tests.unit.worker.hardware.helpers import GIB, recorded, recorded_names

# machine: capability, vendor, compute capability, total VRAM, available VRAM, unified memory
EXPECTED = {
    "no-gpu-server": ("default", None, None, None, None, False),
    "nvidia-rtx-4090": ("nvidia-cuda-12", "nvidia", "8.9", 25757220864, 24931598336, False),
    "nvidia-8x-h100": ("nvidia-cuda-13", "nvidia", "9.0", 8 * 85520809984, 7 * 85029158912, False),
    "nvidia-driver-mismatch": ("default", None, None, None, None, False),
    "nvidia-container-without-gpus": ("default", None, None, None, None, False),
    "nvidia-wsl": ("nvidia-cuda-12", "nvidia", "8.9", 12282 << 20, 10931 << 20, False),
    "nvidia-one-of-two-lost": ("nvidia-cuda-12", "nvidia", "8.6", 51527024640, 50981765120, False),
    "nvidia-small-card": ("default", "nvidia", "7.5", 4026531840, 3700000000, False),
    "amd-rx-7900-xtx": ("amd", "amd", None, 25753026560, 25753026560 - 1137491968, False),
    "amd-strix-halo": (
        "amd",
        "amd",
        None,
        536870912 + 118111600640,
        536870912 - 155189248 + 100000000000,
        True,
    ),
    "amd-small-apu": (
        "default",
        "amd",
        None,
        536870912 + 3 * GIB,
        536870912 - 155189248 + 3 * GIB - 18874368,
        True,
    ),
    "amd-container-without-devices": ("default", None, None, None, None, False),
    "intel-arc-b580-xe": ("intel", "intel", None, 12884901888, None, False),
    "intel-arc-a770-i915": ("intel", "intel", None, 17095983104, 16817061888, False),
    "intel-arc-a770-mainline-i915": ("intel", "intel", None, None, None, False),
    "intel-integrated": ("default", "intel", None, None, None, True),
    "jetson-orin-nvml": ("nvidia-l4t-cuda-12", "nvidia", "8.7", 65885814784, 58003456000, True),
    "jetson-orin-nano-without-nvml": ("nvidia-l4t", "nvidia", "8.7", 7990337536, 6120538112, True),
    "jetson-thor": ("nvidia-l4t-cuda-13", "nvidia", "11.0", 131881934848, 124554051584, True),
    "gb10-dgx-spark": ("nvidia-l4t-cuda-13", "nvidia", "12.1", 130663165952, 121411960832, True),
    "mac-mini-m2-pro": ("metal", "apple", None, 32 * GIB, 19 * GIB, True),
    "mac-intel": ("darwin-x86", None, None, None, None, False),
    "container-cgroup-v1": ("default", None, None, None, None, False),
    "container-cgroup-v1-unlimited": ("default", None, None, None, None, False),
    "container-cgroup-v2": ("default", None, None, None, None, False),
    "container-cgroup-v2-nested": ("default", None, None, None, None, False),
    "container-cgroup-v2-unlimited": ("default", None, None, None, None, False),
    "vulkan-other-vendor": ("vulkan", "vulkan", None, None, None, False),
    "raspberry-pi-5": ("default", "vulkan", None, None, None, True),
}


def test_every_recording_has_an_expectation():
    assert sorted(EXPECTED) == recorded_names()


@pytest.mark.behaviour("HW-1")
@pytest.mark.parametrize("name", EXPECTED)
def test_recorded_machine_is_read_as_what_it_is(name):
    reading = detect_hardware(recorded(name), None)

    assert (
        reading.capability,
        reading.gpu_vendor,
        reading.gpu_compute_capability,
        reading.vram_bytes_total,
        reading.vram_bytes_available,
        reading.unified_memory,
    ) == EXPECTED[name]


@pytest.mark.behaviour("HW-2")
@pytest.mark.parametrize("name", EXPECTED)
def test_readings_have_no_zero_for_unknown_and_no_more_available_than_total(name):
    reading = detect_hardware(recorded(name), None)

    pairs = [(gpu.vram_bytes_total, gpu.vram_bytes_available) for gpu in reading.gpus]
    pairs += [(reading.vram_bytes_total, reading.vram_bytes_available)]
    pairs += [(reading.ram_bytes_total, reading.ram_bytes_available)]
    for total, available in pairs:
        assert total is None or total > 0
        assert available is None or (total is not None and 0 <= available <= total)


@pytest.mark.behaviour("HW-2")
def test_full_card_reads_as_zero_available_and_not_as_unknown():
    first = detect_hardware(recorded("nvidia-8x-h100"), None).gpus[0]

    assert (first.vram_bytes_total, first.vram_bytes_available) == (85520809984, 0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nvidia-driver-mismatch", ("different versions", "Reboot")),
        ("nvidia-container-without-gpus", ("libnvidia-ml.so.1", "--gpus all")),
        ("nvidia-one-of-two-lost", ("GPU 1", "GPU is lost")),
        ("amd-container-without-devices", ("0000:43:00.0", "/dev/kfd")),
        ("intel-arc-a770-mainline-i915", ("Intel GPU 0", "i915", "xe")),
    ],
)
def test_unreadable_hardware_is_one_warning_with_a_remedy(name, words):
    (warning,) = detect_hardware(recorded(name), None).warnings

    assert all(word in warning for word in words)
    assert warning.endswith(".")


def test_machines_in_order_have_no_warnings():
    troubled = {name for name in recorded_names() if detect_hardware(recorded(name), None).warnings}

    assert troubled == {
        "nvidia-driver-mismatch",
        "nvidia-container-without-gpus",
        "nvidia-one-of-two-lost",
        "amd-container-without-devices",
        "intel-arc-a770-mainline-i915",
    }


def test_unreadable_memory_is_a_warning_and_zero_bytes():
    machine = recorded("nvidia-rtx-4090")
    machine.recording.memory = {}

    reading = detect_hardware(machine, None)

    assert (reading.ram_bytes_total, reading.ram_bytes_available) == (0, 0)
    assert reading.warnings == ("The machine's memory could not be read.",)
    assert reading.gpu_vendor == "nvidia"


def test_graphics_inside_the_processor_do_not_count_beside_a_card():
    for name, vendor in (("nvidia-rtx-4090", "nvidia"), ("amd-rx-7900-xtx", "amd"), ("intel-arc-b580-xe", "intel")):
        reading = detect_hardware(recorded(name), None)
        assert len(reading.gpus) == 2
        assert reading.gpu_vendor == vendor
        assert not reading.unified_memory
        assert reading.vram_bytes_total == max(gpu.vram_bytes_total or 0 for gpu in reading.gpus if not gpu.unified)


def test_card_of_a_later_vendor_wins_over_graphics_of_an_earlier_one():
    machine = recorded("intel-arc-a770-i915")
    halo = recorded("amd-strix-halo").recording
    machine.recording.files |= {
        path.replace("card1", "card2"): text for path, text in halo.files.items() if "drm" in path
    }
    machine.recording.binary_files |= {
        path.replace("card1", "card2"): content for path, content in halo.binary_files.items()
    }

    reading = detect_hardware(machine, None)

    assert {gpu.vendor for gpu in reading.gpus} == {"amd", "intel"}
    assert reading.gpu_vendor == "intel"
    assert reading.vram_bytes_total == 17095983104


def test_two_vendors_cards_are_not_added_up():
    machine = recorded("intel-arc-a770-i915")
    machine.recording.nvml = recorded("nvidia-rtx-4090").recording.nvml

    reading = detect_hardware(machine, None)

    assert reading.gpu_vendor == "nvidia"
    assert reading.vram_bytes_total == 25757220864


def test_highest_compute_capability_counts_by_number_and_not_by_letter():
    machine = recorded("nvidia-8x-h100")
    assert machine.recording.nvml is not None
    machine.recording.nvml["devices"][3]["compute_capability"] = "10.0"

    assert detect_hardware(machine, None).gpu_compute_capability == "10.0"


def test_names_come_from_the_card_or_the_pci_database_or_its_number():
    amd = detect_hardware(recorded("amd-rx-7900-xtx"), None).gpus
    assert [gpu.name for gpu in amd] == ["AMD Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]", "AMD Raphael"]
    assert [gpu.address for gpu in amd] == ["0000:03:00.0", "0000:0f:00.0"]

    machine = recorded("amd-strix-halo")
    assert detect_hardware(machine, None).gpus[0].name == "AMD GPU 1586"
    machine.recording.files["/sys/class/drm/card1/device/product_name"] = "Radeon 8060S\n"
    assert detect_hardware(machine, None).gpus[0].name == "Radeon 8060S"


def test_jetson_without_nvml_tells_its_model_and_release():
    (gpu,) = detect_hardware(recorded("jetson-orin-nano-without-nvml"), None).gpus

    assert (gpu.name, gpu.driver) == ("NVIDIA Orin Nano Developer Kit", "L4T 35.4.1")


def test_discrete_gpu_without_readable_memory_is_unknown_and_not_system_memory():
    machine = recorded("nvidia-rtx-4090")
    assert machine.recording.nvml is not None
    machine.recording.nvml["devices"][0] |= {
        "memory_bytes_total": None,
        "memory_bytes_free": None,
        "memory_failure": "Not Supported",
    }

    reading = detect_hardware(machine, None)

    assert reading.vram_bytes_total is None
    assert "Not Supported" in reading.warnings[0]
    assert reading.capability == "nvidia-cuda-12"


def test_window_into_shared_memory_is_not_taken_for_its_size():
    machine = recorded("gb10-dgx-spark")
    assert machine.recording.nvml is not None
    machine.recording.nvml["devices"][0] |= {"memory_bytes_total": 8128 << 20, "memory_bytes_free": 7929 << 20}

    assert detect_hardware(machine, None).vram_bytes_total == 130663165952


@pytest.mark.parametrize(
    ("name", "model", "cores", "threads"),
    [
        ("no-gpu-server", "Intel(R) Xeon(R) Processor @ 2.80GHz", 2, 2),
        ("nvidia-rtx-4090", "AMD Ryzen 9 7950X 16-Core Processor", 16, 32),
        ("jetson-orin-nano-without-nvml", "ARMv8 Processor rev 1 (v8l)", 6, 6),
        ("jetson-orin-nvml", None, 12, 12),
        ("raspberry-pi-5", "Raspberry Pi 5 Model B Rev 1.0", 4, 4),
        ("mac-mini-m2-pro", "Apple M2 Pro", 12, 12),
    ],
)
def test_processor_is_named_and_counted(name, model, cores, threads):
    reading = detect_hardware(recorded(name), None)

    assert (reading.cpu_model, reading.cpu_cores, reading.cpu_threads) == (model, cores, threads)
