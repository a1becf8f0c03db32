"""The converter as a program: weights that are the same tensor by tensor, and what it refuses with a sentence."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from corral.engines import read_launcher
from tests.engines.engine_processes import LLAMA, running
from tests.support.safetensors_files import write_safetensors
from tests.support.tiny_gguf import HEADS, KEY_HEADS, ModelShape, write_tiny_gguf
from tests.support.tiny_llama import order_as_transformers, write_tiny_llama
from tests.support.tiny_lora import write_peft_lora, write_tiny_lora

QUESTION = "What do the people say about the number that they see?"
FOR_BASE = (f"--heads={HEADS}", f"--kv-heads={KEY_HEADS}")


async def convert(folder: Path, output: Path, *arguments: str) -> tuple[int | None, list[Any]]:
    """Run the converter on a folder; return its exit code and the objects that it has printed."""
    launcher = output.parent / "launcher.py"
    launcher.write_text(read_launcher("llama_convert") or "")
    first = min(folder.glob("*.safetensors"), default=folder / "absent.safetensors")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", str(launcher), f"--model={first}", f"--output={output}", *arguments,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, _ = await process.communicate()
    return process.returncode, [json.loads(line) for line in printed.decode().splitlines()]


async def refuse(folder: Path, output: Path, *arguments: str) -> str:
    code, lines = await convert(folder, output, *arguments)
    assert (code, lines[-1].get("code")) == (1, "not_convertible"), lines[-1]
    return str(lines[-1]["error"])


def read_tensors(path: Path) -> dict[str, tuple[int, Any]]:
    return {one.name: (int(one.tensor_type), one.data) for one in gguf.GGUFReader(path).tensors}


def read_field(path: Path, name: str) -> Any:
    field = gguf.GGUFReader(path).fields.get(name)
    return None if field is None else field.contents()


@pytest.mark.behaviour("QUANT-21")
async def test_converted_llama_has_the_weights_and_answers_of_the_same_model_in_half_precision(tmp_path: Path) -> None:
    code, lines = await convert(write_tiny_llama(tmp_path / "source"), tmp_path / "made.gguf")
    assert code == 0, lines
    assert lines[-1]["result"]["source_types"] == ["f32"]
    fractions = [line["fraction"] for line in lines[:-1]]
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    assert fractions == sorted(fractions)
    other = write_tiny_gguf(tmp_path / "other.gguf", is_half=True)
    made, known = read_tensors(tmp_path / "made.gguf"), read_tensors(other)
    assert made.keys() == known.keys()
    for name, (kind, values) in known.items():
        assert made[name][0] == kind
        assert np.array_equal(made[name][1], values), name
    texts = []
    for path in (tmp_path / "made.gguf", other):
        with running(LLAMA, tmp_path / path.stem, model=path, context_size=512) as engine:
            await engine.ready()
            texts.append((await engine.chat(QUESTION)).json()["choices"][0]["message"]["content"])
    assert texts[0] == texts[1]


@pytest.mark.behaviour("QUANT-21")
async def test_weights_in_bfloat_are_converted(tmp_path: Path) -> None:
    code, lines = await convert(write_tiny_llama(tmp_path / "source", is_bfloat=True), tmp_path / "made.gguf")
    assert (code, lines[-1]["result"]["source_types"]) == (0, ["bf16"])
    made = read_tensors(tmp_path / "made.gguf")["blk.0.ffn_up.weight"][1]
    known = read_tensors(write_tiny_gguf(tmp_path / "other.gguf"))["blk.0.ffn_up.weight"][1]
    assert np.allclose(made, known, rtol=0.01)


@pytest.mark.behaviour("QUANT-21")
async def test_scaled_positions_of_llama_3_become_factors(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }  # fmt: skip
    folder = write_tiny_llama(tmp_path / "source", rope_scaling=scaling)
    assert (await convert(folder, tmp_path / "made.gguf"))[0] == 0
    factors = read_tensors(tmp_path / "made.gguf")["rope_freqs.weight"][1]
    assert (factors[0], factors[-1], len(factors)) == (1.0, 8.0, 8)
    assert list(factors) == sorted(factors)


@pytest.mark.behaviour("QUANT-21")
async def test_sentencepiece_model_becomes_tokens_with_their_scores(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path / "source")
    size = json.loads((folder / "config.json").read_text())["vocab_size"]

    def field(number: int, form: int, content: bytes) -> bytes:
        return bytes([number << 3 | form]) + content

    def text(number: int, content: bytes) -> bytes:
        return field(number, 2, bytes([len(content)]) + content)

    def piece(word: str, score: float, kind: int) -> bytes:
        inner = text(1, word.encode()) + field(2, 5, np.float32(score).tobytes()) + field(3, 0, bytes([kind]))
        return text(1, inner)

    pieces = [piece("<unk>", 0, 2), piece("<s>", 0, 3), piece("<0x41>", 0, 6), piece("\u2581the", -1.5, 1)]
    (folder / "tokenizer.model").write_bytes(b"".join(pieces))
    assert (await convert(folder, tmp_path / "made.gguf"))[0] == 0
    made = tmp_path / "made.gguf"
    assert read_field(made, "tokenizer.ggml.model") == "llama"
    assert read_field(made, "tokenizer.ggml.tokens")[:5] == ["<unk>", "<s>", "<0x41>", "\u2581the", "[PAD4]"]
    assert read_field(made, "tokenizer.ggml.scores")[3] == -1.5
    assert read_field(made, "tokenizer.ggml.token_type")[:5] == [2, 3, 6, 1, 5]
    assert len(read_field(made, "tokenizer.ggml.tokens")) == size


@pytest.mark.behaviour("QUANT-22")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model_type": "gpt_neox"}, "the family gpt_neox"),
        ({"attention_bias": True}, "with biases"),
        ({"quantization_config": {"quant_method": "gptq"}}, "are quantised"),
        ({"hidden_act": "gelu"}, "activation gelu"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "'yarn'"),
    ],
)
async def test_what_is_no_known_llama_is_refused_with_a_sentence(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    assert sentence in await refuse(write_tiny_llama(tmp_path / "source", **change), tmp_path / "made.gguf")


@pytest.mark.behaviour("QUANT-22")
async def test_unknown_tokenizer_or_tensor_is_refused_with_a_sentence(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path / "source")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "x+"}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "splits texts in a way" in await refuse(folder, tmp_path / "made.gguf")
    (folder / "tokenizer.json").unlink()
    assert "no tokenizer.json" in await refuse(folder, tmp_path / "made.gguf")
    strange = {"model.layers.0.mixer.weight": np.zeros((2, 2), np.float32)}
    write_safetensors(folder / "model-00003.safetensors", strange)
    write_tiny_llama(tmp_path / "source")
    assert "does not belong to a llama" in await refuse(folder, tmp_path / "made.gguf")


@pytest.mark.behaviour("QUANT-22")
async def test_damaged_weights_end_with_a_sentence(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path / "source")
    path = folder / "model-00002-of-00002.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    code, lines = await convert(folder, tmp_path / "made.gguf")
    assert (code, lines[-1]["code"]) == (1, "bad_model_file")


@pytest.mark.behaviour("QUANT-23")
async def test_converted_adapter_changes_the_answers_of_its_base(tmp_path: Path, tiny: Path) -> None:
    code, lines = await convert(write_peft_lora(tmp_path / "peft"), tmp_path / "made.gguf", *FOR_BASE)
    assert code == 0, lines
    made, known = (read_tensors(path) for path in (tmp_path / "made.gguf", write_tiny_lora(tmp_path / "known.gguf")))
    assert made.keys() == known.keys()
    for name, (_, values) in known.items():
        assert np.allclose(made[name][1], values, atol=1e-3), name
    option = json.dumps([{"name": "made", "path": str(tmp_path / "made.gguf")}])
    with running(LLAMA, tmp_path / "engine", model=tiny, adapters=option, context_size=512) as engine:
        await engine.ready()
        texts = [
            (await engine.chat(QUESTION, lora=[{"id": 0, "scale": scale}])).json()["choices"][0]["message"]["content"]
            for scale in (0.0, 1.0)
        ]
    assert texts[0] != texts[1]


@pytest.mark.behaviour("QUANT-23")
async def test_adapter_of_queries_and_keys_has_its_rows_in_the_order_of_its_base(tmp_path: Path) -> None:
    folder = write_peft_lora(tmp_path / "peft")
    rng, shape = np.random.default_rng(7), ModelShape()
    size = shape.width // HEADS
    expected: dict[str, Any] = {}
    tensors: dict[str, Any] = {}
    for matrix, short, heads in (("attn_q", "q_proj", HEADS), ("attn_k", "k_proj", KEY_HEADS)):
        factor_a = rng.standard_normal((2, shape.width)).astype(np.float32)
        factor_b = rng.standard_normal((heads * size, 2)).astype(np.float32)
        stem = f"base_model.model.model.layers.0.self_attn.{short}"
        # What follows the base's conversion are the outputs: the rows of B. A reads the states as they are.
        tensors |= {f"{stem}.lora_A.weight": factor_a, f"{stem}.lora_B.weight": order_as_transformers(factor_b, heads)}
        expected |= {f"blk.0.{matrix}.weight.lora_a": factor_a, f"blk.0.{matrix}.weight.lora_b": factor_b}
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    code, lines = await convert(folder, tmp_path / "made.gguf", *FOR_BASE)
    assert code == 0, lines
    made = read_tensors(tmp_path / "made.gguf")
    assert made.keys() == expected.keys()
    for name, values in expected.items():
        assert np.allclose(made[name][1], values, atol=1e-2), name


@pytest.mark.behaviour("QUANT-22")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"peft_type": "IA3"}, "kind IA3"),
        ({"use_dora": True}, "DoRA"),
        ({"bias": "all"}, "biases"),
        ({"modules_to_save": ["lm_head"]}, "matrices of their own"),
    ],
)
async def test_adapter_that_is_more_than_lora_is_refused_with_a_sentence(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    assert sentence in await refuse(write_peft_lora(tmp_path / "peft", **change), tmp_path / "made.gguf", *FOR_BASE)
