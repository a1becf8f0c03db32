"""Decisions about quantisations, without a server."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from corral.domain.errors import InvalidRequest, Unprocessable
from corral.domain.model import FilePart, Model, ModelConfig, ModelFacts, ModelFile, StoredFile
from corral.domain.node import Hardware
from corral.domain.quantization import QuantizationPhase
from corral.domain.run import RunNeeds
from corral.policy import quantization as policy
from corral.policy.runs import has_room
from tests.unit.policy.builders import a_node

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 1024**3


def make_model(*paths: str, entry: str = "", options: dict[str, str] | None = None, **facts: object) -> Model:
    files = tuple(ModelFile(path=path, parts=(FilePart(uri=f"https://host.example/{path}"),)) for path in paths)
    config = ModelConfig(
        name="m", backend="llama-cpp", files=files, entry=entry, options=options or {}, aliases=("n",), is_pinned=True
    )
    stored = tuple(StoredFile(path=path, sha256=f"{number:064x}", size_bytes=GIB) for number, path in enumerate(paths))
    return Model(
        config=config,
        revision=1,
        run_hash="h",
        files=stored,
        facts=ModelFacts(**facts),  # type: ignore[arg-type]
        created_at=NOW,
        updated_at=NOW,
    )


@pytest.mark.parametrize(
    ("text", "name"), [("Q4_K_M", "q4_k_m"), (" q8-0 ", "q8_0"), ("q4_k", "q4_k_m"), ("F16", "f16")]
)
def test_type_is_found_by_its_name_in_any_case(text: str, name: str) -> None:
    assert policy.parse_weight_type(text).name == name


def test_type_that_does_not_exist_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InvalidRequest) as refused:
        policy.parse_weight_type("q4_k_n")
    assert refused.value.slug == "unknown_weight_type"
    assert "q4_k_" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct.Q5_K_M.gguf"),
        ("llama-3-8b-f16.gguf", "llama-3-8b.Q5_K_M.gguf"),
        ("big-00001-of-00003.gguf", "big.Q5_K_M.gguf"),
        ("folder/plain.gguf", "plain.Q5_K_M.gguf"),
    ],
)
def test_file_of_a_result_is_named_by_the_new_type(source: str, name: str) -> None:
    assert policy.make_file_name(source, "q5_k_m") == name


def test_shards_are_read_as_one_model_and_a_projector_stays() -> None:
    paths = ("big-00001-of-00002.gguf", "big-00002-of-00002.gguf", "mmproj.gguf")
    model = make_model(*paths, options={"projector": "mmproj.gguf"})
    source = policy.choose_source(model)
    assert source.entry.path == paths[0]
    assert [file.path for file in source.weights] == list(paths[:2])
    result = StoredFile(path="big.Q8_0.gguf", sha256="f" * 64, size_bytes=1)
    config = policy.make_result_config(model, source, result)
    assert [file.path for file in config.files] == ["big.Q8_0.gguf", "mmproj.gguf"]
    assert (config.entry, config.aliases, config.is_pinned) == ("big.Q8_0.gguf", (), False)


@pytest.mark.parametrize("paths", [("a.gguf", "b.gguf"), ("model.safetensors",), ("voice.onnx",)])
def test_model_that_cannot_be_quantized_is_refused_with_its_reason(paths: tuple[str, ...]) -> None:
    with pytest.raises(Unprocessable) as refused:
        policy.choose_source(make_model(*paths))
    assert refused.value.slug == "not_quantizable"


@pytest.mark.behaviour("QUANT-13")
def test_expected_sizes_follow_the_parameters_or_else_the_bytes_of_a_known_type() -> None:
    types = policy.WEIGHT_TYPES
    by_count = make_model("m.gguf", parameters=8_000_000_000, quantisation="F16")
    size = policy.estimate_result_bytes(by_count, types["q4_k_m"])
    assert size is not None
    assert 4.8e9 < size < 5.0e9
    by_bytes = make_model("m.gguf", quantisation="F16")
    half = policy.estimate_result_bytes(by_bytes, types["q8_0"])
    assert half is not None
    assert 0.5 * GIB < half < 0.6 * GIB
    assert policy.is_quantized(make_model("m.gguf", quantisation="Q4_1"))
    assert not policy.is_quantized(by_bytes)


@pytest.mark.behaviour("QUANT-5")
def test_node_without_the_disk_or_the_memory_has_no_room() -> None:
    needs = RunNeeds(disk_bytes=10 * GIB, ram_bytes=2 * GIB)
    roomy = a_node("n", hardware=Hardware(available_disk=20 * GIB, available_ram=4 * GIB))
    assert has_room(roomy, needs)
    assert not has_room(a_node("n", hardware=Hardware(available_disk=5 * GIB, available_ram=4 * GIB)), needs)
    assert not has_room(a_node("n", hardware=Hardware(available_disk=20 * GIB, available_ram=GIB)), needs)
    # What is unknown excludes no node.
    assert has_room(a_node("n", hardware=Hardware()), needs)
    assert has_room(roomy, RunNeeds())


@pytest.mark.behaviour("QUANT-6")
def test_percentage_rises_over_the_phases_in_their_order() -> None:
    steps = [
        policy.compute_percent(phase, fraction) for phase in QuantizationPhase for fraction in (0.0, 0.5, 1.0, 7.0)
    ]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0.0, 99.0)
