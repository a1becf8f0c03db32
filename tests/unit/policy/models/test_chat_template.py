"""Whether a model takes tools, by the chat templates in its files."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest

from corral.policy.models.gguf import TEMPLATE_BYTES_MAX
from corral.policy.models.header_bytes import ReadableFile
from corral.policy.models.headers import read_facts

PLAIN = "{% for message in messages %}{{ message.content }}{% endfor %}"
WITH_TOOLS = PLAIN + " " * 4096 + "{% if tools %}{{ tools | tojson }}{% endif %}"


def readable(content: bytes, path: str) -> ReadableFile:
    return ReadableFile(
        path=path, size_bytes=len(content), read=lambda offset, length: content[offset : offset + length]
    )


def gguf_file(path: Path, template: object) -> ReadableFile:
    writer = gguf.GGUFWriter(path, "llama")
    if template is not None:
        writer.add_chat_template(template)  # type: ignore[arg-type]
    writer.add_tensor("a", np.zeros((4, 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return readable(path.read_bytes(), "model.gguf")


@pytest.mark.behaviour("GW-221")
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (None, False),
        (PLAIN, False),
        (PLAIN + "{{ message.tool_calls }}", False),
        (WITH_TOOLS, True),
        (" " * (TEMPLATE_BYTES_MAX + 1), None),
        ([{"name": "default", "template": PLAIN}, {"name": "tool_use", "template": WITH_TOOLS}], True),
        ([{"name": "default", "template": PLAIN}, {"name": "rag", "template": PLAIN}], False),
    ],
)
def test_gguf_takes_tools_when_one_of_its_templates_reads_them(
    tmp_path: Path, template: object, expected: bool | None
) -> None:
    assert read_facts([gguf_file(tmp_path / "model.gguf", template)]).takes_tools is expected


@pytest.mark.behaviour("GW-221")
@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        ({}, None),
        ({"tokenizer_config.json": json.dumps({"chat_template": PLAIN})}, False),
        ({"tokenizer_config.json": json.dumps({"chat_template": WITH_TOOLS})}, True),
        ({"tokenizer_config.json": json.dumps({"chat_template": [{"name": "a", "template": WITH_TOOLS}]})}, True),
        ({"tokenizer_config.json": json.dumps({"chat_template": 5})}, None),
        ({"chat_template.json": json.dumps({"chat_template": PLAIN})}, False),
        ({"chat_template.jinja": WITH_TOOLS}, True),
        ({"chat_template.jinja": " " * (TEMPLATE_BYTES_MAX + 1)}, None),
    ],
)
def test_safetensors_take_tools_when_a_template_beside_them_reads_them(
    beside: dict[str, str], expected: bool | None
) -> None:
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    weights = readable(len(header).to_bytes(8, "little") + header + bytes(4), "model.safetensors")
    files = [weights, *(readable(text.encode(), path) for path, text in beside.items())]
    assert read_facts(files).takes_tools is expected
