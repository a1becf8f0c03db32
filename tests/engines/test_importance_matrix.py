"""Importance matrices as the quantiser reads them: both forms of llama-imatrix, and files that are none."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from corral.engines.launchers import llama_quantize as launcher

SUMS = np.array([[2.0, 4.0, 8.0]], np.float32)


def write_gguf(path: Path, *, count: float = 2.0) -> Path:
    writer = gguf.GGUFWriter(path, "")
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["a.txt", "b.txt"])
    writer.add_tensor("blk.0.ffn_up.weight.in_sum2", SUMS)
    writer.add_tensor("blk.0.ffn_up.weight.counts", np.array([[count]], np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_earlier(path: Path) -> Path:
    name = b"blk.0.ffn_up.weight"
    path.write_bytes(struct.pack("<ii", 1, len(name)) + name + struct.pack("<ii", 2, 3) + SUMS.tobytes())
    return path


@pytest.mark.behaviour("QUANT-24")
def test_both_forms_hold_the_mean_of_each_column(tmp_path: Path) -> None:
    for path in (write_gguf(tmp_path / "new.gguf"), write_earlier(tmp_path / "old.dat")):
        found = launcher.read_imatrix(path)
        assert {name: list(values) for name, values in found.items()} == {"blk.0.ffn_up.weight": [1.0, 2.0, 4.0]}


def test_matrix_that_was_never_used_counts_all_columns_the_same(tmp_path: Path) -> None:
    found = launcher.read_imatrix(write_gguf(tmp_path / "m.gguf", count=0.0))
    assert list(found["blk.0.ffn_up.weight"]) == [1.0, 1.0, 1.0]


@pytest.mark.behaviour("QUANT-24")
@pytest.mark.parametrize("kept", [0, 3, 10, 40, 200])
def test_damaged_file_is_refused_in_bounded_time(kept: int, tmp_path: Path) -> None:
    for path in (write_gguf(tmp_path / "new.gguf"), write_earlier(tmp_path / "old.dat")):
        path.write_bytes(path.read_bytes()[:kept][:-1] if kept < path.stat().st_size else b"\xff" * 64)
        with pytest.raises((launcher.ImatrixError, struct.error, KeyError, ValueError)):
            launcher.read_imatrix(path)
