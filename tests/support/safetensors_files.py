"""Writes safetensors files: a length, a JSON header, and the bytes of the tensors, without the package of that name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {"float32": "F32", "float16": "F16"}


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray[Any, Any]], *, is_bfloat: bool = False) -> Path:
    """Write tensors in their own types; with `is_bfloat`, 32-bit floats become BF16 (the lower half is cut off)."""
    header: dict[str, Any] = {}
    pieces: list[bytes] = []
    offset = 0
    for name, values in tensors.items():
        kind = TYPES[str(values.dtype)]
        content = np.ascontiguousarray(values).tobytes()
        if is_bfloat and kind == "F32":
            kind, content = "BF16", (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16).tobytes()
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [offset, offset + len(content)]}
        offset += len(content)
        pieces.append(content)
    document = json.dumps(header).encode()
    path.write_bytes(len(document).to_bytes(8, "little") + document + b"".join(pieces))
    return path
