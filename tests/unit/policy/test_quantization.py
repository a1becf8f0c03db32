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


@pytest.mark.parametrize("paths", [("a.gguf", "b.gguf"), ("voice.onnx",)])
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


@pytest.mark.behaviour("QUANT-13")
def test_rows_that_k_types_do_not_divide_are_expected_in_the_type_that_llama_cpp_takes_instead() -> None:
    # The matrices of SmolLM2 135M, whose result was measured: 84.1 MiB.
    shapes = {
        "token_embd.weight": [576, 49152], "blk.*.attn_q.weight": [576, 576], "blk.*.attn_k.weight": [576, 192],
        "blk.*.attn_v.weight": [576, 192], "blk.*.attn_output.weight": [576, 576], "blk.*.ffn_gate.weight": [576, 1536],
        "blk.*.ffn_up.weight": [576, 1536], "blk.*.ffn_down.weight": [1536, 576],
    }  # fmt: skip
    model = make_model("m.gguf", parameters=134_515_008, quantisation="F16", layers=30, shapes=shapes)
    small = policy.estimate_result_bytes(model, policy.WEIGHT_TYPES["q3_k_s"])
    assert small is not None
    assert 0.97 < small / (84.1 * 1024**2) < 1.03
    # Blocks of 32 divide all rows.
    plain = policy.estimate_result_bytes(model, policy.WEIGHT_TYPES["q8_0"])
    assert plain is not None
    assert 8.5 <= plain * 8 / 134_515_008 < 8.7


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


WEIGHTS = ("config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "tokenizer.json")


@pytest.mark.behaviour("QUANT-21")
def test_safetensors_are_read_with_what_lies_beside_them_and_become_a_model_of_llama_cpp() -> None:
    model = make_model(*WEIGHTS, "notes.txt", options={"context_size": "512", "gpus": "2"}, format="safetensors")
    source = policy.choose_source(model)
    assert source.is_converted
    assert {file.path for file in source.needed} == set(WEIGHTS)
    result = StoredFile(path=policy.make_file_name(source.entry.path, "q8_0"), sha256="f" * 64, size_bytes=1)
    config = policy.make_result_config(model, source, result)
    assert (config.backend, config.entry, dict(config.options)) == (
        "llama-cpp", "model.Q8_0.gguf", {"context_size": "512"},
    )  # fmt: skip
    half = policy.compute_needs(model, GIB, policy.WEIGHT_TYPES["f16"]).disk_bytes or 0
    assert (policy.compute_needs(model, GIB, policy.WEIGHT_TYPES["q8_0"]).disk_bytes or 0) > half


@pytest.mark.behaviour("QUANT-22")
def test_family_that_is_not_converted_is_refused_before_anything_is_fetched() -> None:
    with pytest.raises(Unprocessable) as refused:
        policy.choose_source(make_model(*WEIGHTS, format="safetensors", architecture="falcon"))
    assert refused.value.slug == "not_convertible"


@pytest.mark.behaviour("QUANT-23")
def test_adapter_needs_its_base_and_half_precision() -> None:
    adapter = make_model("adapter_config.json", "adapter_model.safetensors", format="safetensors", kind="lora")
    base = make_model("m.gguf", format="gguf", architecture="llama", heads=8)
    half, small = policy.WEIGHT_TYPES["f16"], policy.WEIGHT_TYPES["q4_k_m"]
    for one, other, kind, code in (
        (adapter, None, half, "base_missing"),
        (adapter, base, small, "bad_adapter"),
        (adapter, make_model("m.gguf"), half, "base_unknown"),
        (base, base, half, "not_an_adapter"),
    ):
        with pytest.raises(Unprocessable) as refused:
            policy.choose_base(one, other, kind)
        assert refused.value.slug == code
    chosen = policy.choose_base(adapter, base, half)
    assert chosen is not None
    assert (chosen.architecture, chosen.heads, chosen.kv_heads) == ("llama", 8, 8)
    assert policy.choose_base(base, None, small) is None


@pytest.mark.behaviour("QUANT-24")
def test_importance_matrix_is_a_file_of_the_model_and_no_weights() -> None:
    model = make_model("m.gguf", "imatrix.gguf")
    source = policy.choose_source(model, "imatrix.gguf")
    assert (source.entry.path, [file.path for file in source.needed]) == ("m.gguf", ["m.gguf", "imatrix.gguf"])
    with pytest.raises(Unprocessable) as refused:
        policy.choose_source(model, "other.gguf")
    assert refused.value.slug == "imatrix_not_found"
