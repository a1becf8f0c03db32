"""Headers of model files: the numbers agree with the format's own library, and no file can do harm."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.policy.models.gguf import FILE_TYPES, TENSOR_TYPES
from corral.policy.models.header_bytes import HEADER_BYTES_MAX, WINDOW_BYTES
from corral.policy.models.headers import BadHeader, ReadableFile, read_facts
from tests.support.tiny_gguf import ModelShape, write_tiny_gguf


def readable(content: bytes, path: str = "model.gguf") -> ReadableFile:
    return ReadableFile(path=path, size_bytes=len(content), read=lambda at, length: content[at : at + length])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", shape=ModelShape(layers=3))


def test_numbers_of_a_gguf_file_are_those_of_the_formats_own_library(tiny: Path) -> None:
    reader = gguf.GGUFReader(tiny)
    facts = read_facts([readable(tiny.read_bytes())])
    assert facts.format == "gguf"
    assert facts.architecture == reader.fields["general.architecture"].contents()
    assert facts.layers == reader.fields["llama.block_count"].contents() == 3
    assert facts.context_length == reader.fields["llama.context_length"].contents()
    assert facts.embedding_length == reader.fields["llama.embedding_length"].contents()
    assert facts.heads == reader.fields["llama.attention.head_count"].contents()
    assert facts.kv_heads == reader.fields["llama.attention.head_count_kv"].contents()
    assert facts.weights_bytes == sum(int(tensor.n_bytes) for tensor in reader.tensors)
    assert facts.parameters == sum(int(tensor.n_elements) for tensor in reader.tensors)
    assert facts.quantisation == "F32"
    assert facts.has_chat_template
    # 3 layers, 2 heads of 16 keys and 16 values, 2 bytes each.
    assert facts.kv_bytes_per_token == 3 * 2 * (16 + 16) * 2


def test_tables_of_types_are_those_of_the_formats_own_library() -> None:
    ours = {number: (kind.name, kind.block, kind.block_bytes) for number, kind in TENSOR_TYPES.items()}
    theirs = {int(kind): (kind.name, *size) for kind, size in gguf.constants.GGML_QUANT_SIZES.items()}
    assert {number: ours[number] for number in ours.keys() & theirs.keys()} == theirs
    names = {int(kind): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in gguf.LlamaFileType}
    assert {number: name for number, name in names.items() if name != "GUESSED"} == FILE_TYPES


def _entries(path: Path, architecture: str, add: Any, tensors: dict[str, Any]) -> bytes:
    writer = gguf.GGUFWriter(path, architecture)
    add(writer)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def test_heads_may_differ_by_layer_and_have_lengths_of_their_own(tmp_path: Path) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_block_count(3)
        writer.add_embedding_length(64)
        writer.add_head_count(8)
        writer.add_head_count_kv([4, 0, 2])
        writer.add_key_length(32)
        writer.add_value_length(16)

    facts = read_facts([readable(_entries(tmp_path / "m.gguf", "gemma3", add, {}))])
    assert facts.kv_heads == 4
    assert facts.kv_bytes_per_token == (4 + 0 + 2) * (32 + 16) * 2


def test_encoder_keeps_nothing_from_token_to_token(tmp_path: Path) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_block_count(6)
        writer.add_embedding_length(384)
        writer.add_head_count(12)
        writer.add_causal_attention(False)

    assert read_facts([readable(_entries(tmp_path / "m.gguf", "bert", add, {}))]).kv_bytes_per_token == 0


def test_quantised_weights_are_counted_in_their_blocks(tmp_path: Path) -> None:
    quantised = gguf.quants.quantize(np.ones((4, 256), np.float32), gguf.GGMLQuantizationType.Q8_0)

    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_block_count(1)
        writer.add_tensor("a", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)

    facts = read_facts([readable(_entries(tmp_path / "m.gguf", "llama", add, {"b": np.ones((8,), np.float32)}))])
    assert facts.parameters == 4 * 256 + 8
    assert facts.weights_bytes == 4 * 256 // 32 * 34 + 8 * 4
    assert facts.quantisation == "Q8_0"


def test_size_sums_shards_and_projector_and_ignores_other_files(tmp_path: Path) -> None:
    def shard(number: int) -> Any:
        def add(writer: gguf.GGUFWriter) -> None:
            writer.add_uint16("split.no", number)
            writer.add_uint16("split.count", 2)
            if number == 0:
                writer.add_block_count(2)

        return add

    def eyes(writer: gguf.GGUFWriter) -> None:
        writer.add_type("mmproj")

    weights = {"w": np.ones((1000,), np.float32)}
    content = {
        "big-00001-of-00002.gguf": _entries(tmp_path / "0", "llama", shard(0), weights),
        "big-00002-of-00002.gguf": _entries(tmp_path / "1", "llama", shard(1), weights),
        "mmproj.gguf": _entries(tmp_path / "2", "clip", eyes, {"v": np.ones((10,), np.float32)}),
        "other.gguf": _entries(tmp_path / "3", "qwen", lambda _: None, {"o": np.ones((5,), np.float32)}),
    }
    facts = read_facts([readable(text, path) for path, text in reversed(content.items())])
    assert (facts.architecture, facts.layers, facts.parameters) == ("llama", 2, 2000)
    assert facts.weights_bytes == 2000 * 4 + 10 * 4
    chosen = read_facts([readable(text, path) for path, text in content.items()], "other.gguf")
    assert (chosen.architecture, chosen.parameters) == ("qwen", 5)


def test_file_without_an_ending_is_known_by_its_first_bytes(tiny: Path) -> None:
    assert read_facts([readable(tiny.read_bytes(), "model")]).format == "gguf"


# --- hostile files ---

_STARTS = {
    "another version": b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "tensors without end": b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0),
    "entries without end": b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63),
    "a name of an exabyte": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**60),
    "a text of an exabyte": b"GGUF" + struct.pack("<IQQQcIQ", 3, 0, 1, 1, b"a", 8, 2**60),
    "a list of an exabyte": b"GGUF" + struct.pack("<IQQQcIIQ", 3, 0, 1, 1, b"a", 9, 10, 2**60),
    "a long list of texts": b"GGUF" + struct.pack("<IQQQcIIQ", 3, 0, 1, 1, b"a", 9, 8, 10**6) + bytes(8 * 1000),
    "a list of lists of lists": b"GGUF" + struct.pack("<IQQQcI", 3, 0, 1, 1, b"a", 9) + struct.pack("<IQ", 9, 1) * 100,
    "an unknown type": b"GGUF" + struct.pack("<IQQQcI", 3, 0, 1, 1, b"a", 99),
    "a tensor of a thousand dimensions": b"GGUF" + struct.pack("<IQQQcI", 3, 1, 0, 1, b"a", 1000),
    "a tensor of more than all numbers": b"GGUF"
    + struct.pack("<IQQQcIQQQQIQ", 3, 1, 0, 1, b"a", 4, 2**63, 2**63, 2**63, 2**63, 0, 0),
    "a tensor beyond the end": b"GGUF" + struct.pack("<IQQQcIQIQ", 3, 1, 0, 1, b"a", 1, 2**30, 0, 0),
    "nothing": b"",
    "a page": b"<!doctype html><html></html>",
}


@pytest.mark.parametrize("what", sorted(_STARTS))
def test_header_that_makes_no_sense_is_a_sentence(what: str) -> None:
    with pytest.raises(BadHeader) as caught:
        read_facts([readable(_STARTS[what])])
    assert caught.value.message.endswith(".")
    assert caught.value.status == 422


def test_file_that_claims_to_be_huge_is_read_no_further_than_a_header_goes() -> None:
    """One vocabulary of two million texts after the other."""
    start = b"GGUF" + struct.pack("<IQQ", 3, 0, 1000)
    entry = struct.pack("<QcIIQ", 1, b"a", 9, 8, 2_000_000) + bytes(8 * 2_000_000)
    most = 0

    def read(offset: int, length: int) -> bytes:
        nonlocal most
        most = max(most, offset + length)
        assert length <= WINDOW_BYTES
        if offset == 0:
            return (start + entry)[:length]
        begin = (offset - len(start)) % len(entry)
        return (entry[begin : begin + length] + entry[:length])[:length]

    with pytest.raises(BadHeader):
        read_facts([ReadableFile(path="m.gguf", size_bytes=2**50, read=read)])
    assert most <= HEADER_BYTES_MAX


@given(st.binary(max_size=400))
def test_header_reader_returns_facts_or_a_sentence_for_any_bytes(content: bytes) -> None:
    for path, start in (("m.gguf", b"GGUF\x03\0\0\0"), ("m.safetensors", b"")):
        try:
            read_facts([readable(start + content, path)])
        except BadHeader:
            continue


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_header_is_facts_or_a_sentence(tiny: Path, data: st.DataObject) -> None:
    content = bytearray(tiny.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 14_000))
        content[at] = data.draw(st.integers(0, 255))
    try:
        facts = read_facts([readable(bytes(content))])
    except BadHeader:
        return
    assert facts.weights_bytes is None or 0 <= facts.weights_bytes <= len(content)


@settings(max_examples=100, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True))
def test_file_that_is_cut_off_anywhere_is_refused(tiny: Path, share: float) -> None:
    content = tiny.read_bytes()
    with pytest.raises(BadHeader):
        read_facts([readable(content[: int(len(content) * share)])])


# --- safetensors ---


def safetensors(tensors: dict[str, tuple[str, list[int], int]], path: str = "model.safetensors") -> ReadableFile:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (kind, shape, size) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return readable(struct.pack("<Q", len(text)) + text + bytes(at), path)


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "max_position_embeddings": 2048,
}


def document(content: Any, path: str) -> ReadableFile:
    return readable(json.dumps(content).encode(), path)


def test_folder_of_safetensors_is_summed_up_and_its_configuration_read() -> None:
    facts = read_facts(
        [
            safetensors({"a": ("BF16", [10, 20], 400)}, "model-00001-of-00002.safetensors"),
            safetensors({"b": ("BF16", [5], 10), "c": ("F32", [2], 8)}, "model-00002-of-00002.safetensors"),
            document(CONFIG, "config.json"),
            document({"chat_template": "{{ messages }}"}, "tokenizer_config.json"),
        ]
    )
    assert facts.format == "safetensors"
    assert facts.architecture == "llama"
    assert facts.parameters == 207
    assert facts.weights_bytes == 418
    assert facts.quantisation == "BF16"
    assert facts.kv_bytes_per_token == 2 * 4 * 2 * 8 * 2
    assert (facts.layers, facts.context_length, facts.heads, facts.kv_heads) == (4, 2048, 8, 2)
    assert facts.has_chat_template


def test_model_with_eyes_tells_of_its_words_apart_and_a_packed_one_of_its_method() -> None:
    config = {
        "model_type": "gemma3",
        "text_config": {key: value for key, value in CONFIG.items() if key.startswith(("num", "hidden"))},
        "quantization_config": {"quant_method": "GPTQ", "bits": 4},
    }
    facts = read_facts([safetensors({"a": ("I32", [10], 40)}), document(config, "config.json")])
    assert (facts.architecture, facts.layers, facts.quantisation) == ("gemma3", 4, "gptq-4")
    assert facts.parameters is None
    assert facts.kv_bytes_per_token == 2 * 4 * 2 * 8 * 2


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 99999]}}',
        b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}',
        b'{"a": {"dtype": 7, "shape": [1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, true]}}',
        b'{"a": 1}',
    ],
)
def test_header_of_safetensors_that_makes_no_sense_is_a_sentence(header: bytes) -> None:
    with pytest.raises(BadHeader):
        read_facts([readable(struct.pack("<Q", len(header)) + header, "m.safetensors")])


def test_header_of_safetensors_that_claims_to_be_huge_is_not_read() -> None:
    with pytest.raises(BadHeader):
        read_facts([readable(struct.pack("<Q", 2**60), "m.safetensors")])


def test_configuration_full_of_nonsense_leaves_the_facts_unknown() -> None:
    config = {"num_hidden_layers": "many", "num_attention_heads": -1, "hidden_size": 1e300, "architectures": [7]}
    facts = read_facts([safetensors({"a": ("F32", [1], 4)}), document(config, "config.json")])
    assert (facts.layers, facts.heads, facts.kv_bytes_per_token, facts.architecture) == (None, None, None, "")


# --- by name ---


@pytest.mark.parametrize(
    ("paths", "known"),
    [
        (["voice.onnx", "voice.onnx.json"], "piper"),
        (["model.onnx", "tokenizer.json", "config.json"], "onnx"),
        (["model.bin", "config.json", "tokenizer.json", "vocabulary.json"], "ctranslate2"),
        (["weights.pt"], ""),
    ],
)
def test_header_reader_knows_other_formats_by_their_names(paths: list[str], known: str) -> None:
    facts = read_facts([readable(b"12345", path) for path in paths])
    assert facts.format == known
    assert facts.weights_bytes == (5 if known else None)
