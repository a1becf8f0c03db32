"""`corral models import` with something else than it takes: what it says instead."""

from __future__ import annotations


def test_name_of_a_hub_repository_is_refused_with_its_address(corral, frontend):
    outcome = corral("models", "import", "Qwen/Qwen3-0.6B")
    assert outcome.code == 1
    assert outcome.err == (
        "error: There is no file Qwen/Qwen3-0.6B.\n\n"
        "hint: If it is on the Hugging Face hub: corral models import hf://Qwen/Qwen3-0.6B\n"
    )
    assert not frontend.seen


def test_file_of_a_whole_fleet_is_refused_with_the_command_for_it(corral, frontend, tmp_path):
    file = tmp_path / "fleet.yaml"
    file.write_text("models:\n- name: chat\n  backend: llama-cpp\nnodes: {}\n", encoding="utf-8")
    outcome = corral("models", "import", str(file))
    assert outcome.code == 1
    assert outcome.err == (f"error: {file} describes a whole fleet, not one model.\n\nhint: corral apply -f {file}\n")
    assert not frontend.seen
