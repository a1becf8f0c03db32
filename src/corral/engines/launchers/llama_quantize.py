"""Makes a GGUF file smaller with llama.cpp's own `llama_model_quantize`, and prints its progress as lines of JSON.

The libraries are those of a package of node-llama-cpp, called through ctypes. They print and may abort, so this program
is a process of its own for one file. Each line on standard output is an object: `{"phase", "fraction"}` while it works,
then one last line, `{"result": …}` or `{"error", "code"}`. The layout of the parameters belongs to one version of the
library: it is compared with the library's own defaults before any use, and another layout is refused.
"""

from __future__ import annotations

import argparse
import array
import ctypes
import json
import math
import os
import re
import struct
import sys
import threading
from pathlib import Path
from typing import Any

# llama.cpp's numbers of file types.
FILE_TYPES = {
    "f16": 1,
    "bf16": 32,
    "q8_0": 7,
    "q6_k": 18,
    "q5_k_m": 17,
    "q5_k_s": 16,
    "q5_1": 9,
    "q5_0": 8,
    "q4_k_m": 15,
    "q4_k_s": 14,
    "q4_1": 3,
    "q4_0": 2,
    "q3_k_l": 13,
    "q3_k_m": 12,
    "q3_k_s": 11,
    "q2_k": 10,
}
PLAIN_TYPES = frozenset({"f32", "f16", "bf16"})
# The library prints a line for each tensor: `[   3/  21] name - [ 448, 256, 1, 1], type = f16, `.
TENSOR = re.compile(r"\[\s*(\d+)/\s*(\d+)\]\s.*?type =\s*([a-z0-9_]+)", re.IGNORECASE)
ERROR_LEVEL = 4
# Lines of the library's errors that are kept, and their length.
ERRORS_MAX = 5
ERROR_CHARACTERS_MAX = 500
# Of an importance matrix: the ends of its tensors' names, and far more matrices than any model has.
SUMS, COUNTS = ".in_sum2", ".counts"
MATRICES_MAX = 65_536
# The sizes of GGUF's plain values, by the numbers of their kinds.
VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
# The type that the library quantises to by default: Q8_0.
DEFAULT_FILE_TYPE = 7

LOG_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class QuantizeParameters(ctypes.Structure):
    """`llama_model_quantize_params`, as llama.cpp v0.5.0 lays it out."""

    _fields_ = (
        ("nthread", ctypes.c_int32),
        ("ftype", ctypes.c_int),
        ("output_tensor_type", ctypes.c_int),
        ("token_embedding_type", ctypes.c_int),
        ("allow_requantize", ctypes.c_bool),
        ("quantize_output_tensor", ctypes.c_bool),
        ("only_copy", ctypes.c_bool),
        ("pure", ctypes.c_bool),
        ("keep_split", ctypes.c_bool),
        ("dry_run", ctypes.c_bool),
        ("imatrix", ctypes.c_void_p),
        ("kv_overrides", ctypes.c_void_p),
        ("tt_overrides", ctypes.c_void_p),
        ("prune_layers", ctypes.c_void_p),
    )


class ImportanceData(ctypes.Structure):
    """`llama_model_imatrix_data`: the name of a matrix, and how much each of its columns matters."""

    _fields_ = (("name", ctypes.c_char_p), ("data", ctypes.POINTER(ctypes.c_float)), ("size", ctypes.c_size_t))


class ImatrixError(Exception):
    """The file is no importance matrix."""


class LibraryError(Exception):
    """The library is missing, is for another machine, or has another layout than this program knows."""


class LogReader:
    """Reads the lines that the library prints: the progress, the types of the source and the errors."""

    def __init__(self) -> None:
        self.source_types: dict[str, int] = {}
        self.errors: list[str] = []
        # The library keeps the address of the callback.
        self.callback = LOG_CALLBACK(self._on_text)

    def _on_text(self, level: int, text: bytes | None, _data: object) -> None:
        line = (text or b"").decode("utf-8", "replace")
        found = TENSOR.search(line)
        if found is not None:
            number, total, kind = int(found.group(1)), int(found.group(2)), found.group(3).lower()
            self.source_types[kind] = self.source_types.get(kind, 0) + 1
            write_line({"phase": "quantizing", "fraction": (number - 1) / max(1, total)})
        elif level >= ERROR_LEVEL and line.strip() and len(self.errors) < ERRORS_MAX:
            self.errors.append(line.strip()[:ERROR_CHARACTERS_MAX])
        if found is None and level > 2:
            sys.stderr.write(line)


def main() -> int:
    options = read_options()
    if options.watch_stdin:
        threading.Thread(target=end_with_stdin, name="stdin", daemon=True).start()
    try:
        llama, folder = load_library(Path(options.library))
        if options.check:
            print(f"llama.cpp {read_version(folder)}", flush=True)
            return 0
        return quantize(llama, folder, options)
    except (ImatrixError, struct.error, KeyError, ValueError) as error:
        write_line({"error": f"The importance matrix cannot be read: {error}", "code": "bad_imatrix"})
        return 1
    except LibraryError as error:
        if options.check:
            print(f"error: {error}", file=sys.stderr, flush=True)
        else:
            write_line({"error": str(error), "code": "quantizer_broken"})
        return 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="load the library, print its version and exit")
    parser.add_argument("--library", default=".", help="the folder with the libraries of llama.cpp, or one above it")
    parser.add_argument("--model", default="", help="the GGUF file to read")
    parser.add_argument("--output", default="", help="the file to write")
    parser.add_argument("--type", choices=sorted(FILE_TYPES), default="q4_k_m")
    parser.add_argument("--imatrix", default="", help="a file of llama-imatrix: which columns matter")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--watch-stdin", action="store_true", help="end when standard input is closed")
    options = parser.parse_args()
    if not options.check and (not options.model or not options.output):
        parser.error("--model and --output are needed")
    return options


def end_with_stdin() -> None:
    """End this process when its standard input is closed: the worker that started it is gone."""
    while os.read(0, 4096):
        pass
    os._exit(1)


def load_library(root: Path) -> tuple[Any, Path]:
    """Load the libraries below a folder; return libllama and the folder that it lies in."""
    found = sorted(path for path in root.rglob("libllama*") if re.match(r"libllama(\.[\w.]+)?\.(so|dylib)$", path.name))
    if not found:
        raise LibraryError("there is no libllama in the package")
    folder = found[0].parent
    try:
        ctypes.CDLL(str(find_part(folder, "libggml-base")), mode=ctypes.RTLD_GLOBAL)
        ggml = ctypes.CDLL(str(find_part(folder, "libggml")), mode=ctypes.RTLD_GLOBAL)
        llama = ctypes.CDLL(str(found[0]), mode=ctypes.RTLD_GLOBAL)
        llama.llama_model_quantize_default_params.restype = QuantizeParameters
        llama.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(QuantizeParameters)]
        llama.llama_model_quantize.restype = ctypes.c_uint32
        check_layout(llama.llama_model_quantize_default_params())
        silent = LOG_CALLBACK(lambda _level, _text, _data: None)
        llama.llama_log_set(silent, None)
        ggml.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
        ggml.ggml_backend_load_all_from_path(str(folder).encode())
        llama.llama_backend_init()
        llama.llama_log_set(None, None)
    except (OSError, AttributeError) as error:
        raise LibraryError(f"the library cannot be loaded: {error}") from error
    return llama, folder


def find_part(folder: Path, name: str) -> Path:
    """Return a library by its name, with or without a version in it."""
    found = sorted(path for path in folder.iterdir() if re.match(rf"{name}(\.v[\w.]+)?\.(so|dylib)$", path.name))
    if not found:
        raise LibraryError(f"there is no {name} beside libllama")
    return found[0]


def check_layout(defaults: QuantizeParameters) -> None:
    """Refuse a library whose defaults, read with our layout, are not those of llama.cpp."""
    flags = (defaults.allow_requantize, defaults.quantize_output_tensor, defaults.only_copy, defaults.pure)
    pointers = (defaults.imatrix, defaults.kv_overrides, defaults.tt_overrides, defaults.prune_layers)
    is_known = (
        (defaults.nthread, defaults.ftype) == (0, DEFAULT_FILE_TYPE)
        and defaults.output_tensor_type == defaults.token_embedding_type
        and flags == (False, True, False, False)
        and not any(pointers)
    )
    if not is_known:
        raise LibraryError("this version of the library takes other parameters than this program knows")


def read_version(folder: Path) -> str:
    try:
        document = json.loads((folder / "_nlcBuildMetadata.json").read_text(encoding="utf-8"))
        return str(document["buildOptions"]["llamaCpp"]["release"])[:100]
    except (OSError, ValueError, KeyError, TypeError):
        return "of an unknown version"


def quantize(llama: Any, folder: Path, options: argparse.Namespace) -> int:
    reader = LogReader()
    llama.llama_log_set(reader.callback, None)
    parameters = llama.llama_model_quantize_default_params()
    parameters.nthread = max(1, options.threads)
    parameters.ftype = FILE_TYPES[options.type]
    # The result says whether weights were quantised before; refusing such a source is the caller's decision.
    parameters.allow_requantize = True
    # Held until the library has returned.
    held = make_importances(read_imatrix(Path(options.imatrix))) if options.imatrix else None
    parameters.imatrix = None if held is None else ctypes.addressof(held)
    code = llama.llama_model_quantize(options.model.encode(), options.output.encode(), ctypes.byref(parameters))
    if code != 0 or not os.path.isfile(options.output):  # noqa: PTH113 - a launcher keeps its imports few
        reason = " ".join(reader.errors) or f"it returned {code} and gave no reason"
        write_line({"error": f"llama.cpp could not make the file: {reason}", "code": "quantizer_failed"})
        return 1
    types = sorted(reader.source_types)
    result = {
        "tool": f"llama.cpp {read_version(folder)}",
        "source_types": types,
        "is_requantized": any(kind not in PLAIN_TYPES for kind in types),
        "imatrix": 0 if held is None else len(held) - 1,
    }
    write_line({"phase": "quantizing", "fraction": 1.0})
    write_line({"result": result})
    return 0


def make_importances(found: dict[str, array.array[float]]) -> Any:
    """Return the values as the library takes them: one entry for each matrix, and an empty one at the end."""
    entries = (ImportanceData * (len(found) + 1))()
    for entry, (name, values) in zip(entries, found.items(), strict=False):
        entry.name, entry.size = name.encode(), len(values)
        entry.data = (ctypes.c_float * len(values)).from_buffer(values)
    return entries


def read_imatrix(path: Path) -> dict[str, array.array[float]]:
    """Read a file of `llama-imatrix`, in its form of GGUF or in the earlier one: the mean square of the inputs of each
    matrix."""
    content = path.read_bytes()
    found = read_gguf_imatrix(content) if content[:4] == b"GGUF" else read_earlier_imatrix(content)
    if not found:
        raise ImatrixError("it has no matrices")
    for name, values in found.items():
        if not all(math.isfinite(value) for value in values):
            raise ImatrixError(f"{name} has values that are no numbers")
    return found


def read_earlier_imatrix(content: bytes) -> dict[str, array.array[float]]:
    found: dict[str, array.array[float]] = {}
    (count,), at = struct.unpack_from("<i", content, 0), 4
    if not 0 < count <= MATRICES_MAX:
        raise ImatrixError(f"it claims to have {count} matrices")
    for _ in range(count):
        (length,) = struct.unpack_from("<i", content, at)
        name = content[at + 4 : at + 4 + length].decode()
        calls, number = struct.unpack_from("<ii", content, at + 4 + length)
        at += 12 + length
        if length < 1 or number < 1 or at + 4 * number > len(content):
            raise ImatrixError("it is cut off")
        sums = struct.unpack_from(f"<{number}f", content, at)
        found[name] = array.array("f", [value / max(1, calls) for value in sums])
        at += 4 * number
    return found


def read_gguf_imatrix(content: bytes) -> dict[str, array.array[float]]:
    tensors = read_gguf_floats(content)
    found: dict[str, array.array[float]] = {}
    for name, (sizes, sums) in tensors.items():
        if name.endswith(SUMS):
            stem = name.removesuffix(SUMS)
            counts = tensors[stem + COUNTS][1]
            # A layer of experts has a count for each of them.
            row = sizes[0]
            found[stem] = array.array(
                "f", [value / counts[at // row] if counts[at // row] > 0 else 1.0 for at, value in enumerate(sums)]
            )
    return found


def read_gguf_floats(content: bytes) -> dict[str, tuple[tuple[int, ...], tuple[float, ...]]]:
    """Return sizes and values of the 32-bit tensors of a small GGUF file."""
    _, _, count, entries = struct.unpack_from("<4sIQQ", content, 0)
    if count > 2 * MATRICES_MAX or entries > MATRICES_MAX:
        raise ImatrixError(f"it claims to have {count} tensors")
    at, alignment = 24, 32
    for _ in range(entries):
        key, at = read_text(content, at)
        (kind,) = struct.unpack_from("<I", content, at)
        if key == "general.alignment":
            (alignment,) = struct.unpack_from("<I", content, at + 4)
        at = skip_value(content, at + 4, kind)
    infos = []
    for _ in range(count):
        name, at = read_text(content, at)
        (dimensions,) = struct.unpack_from("<I", content, at)
        sizes = struct.unpack_from(f"<{min(dimensions, 4)}Q", content, at + 4)
        kind, offset = struct.unpack_from("<IQ", content, at + 4 + 8 * len(sizes))
        at += 16 + 8 * len(sizes)
        if kind == 0:
            infos.append((name, sizes, offset))
    start = -(-at // alignment) * alignment
    return {
        name: (sizes, struct.unpack_from(f"<{math.prod(sizes)}f", content, start + offset))
        for name, sizes, offset in infos
        if math.prod(sizes) * 4 <= len(content)
    }


def read_text(content: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", content, at)
    if at + 8 + length > len(content):
        raise ImatrixError("it is cut off")
    return content[at + 8 : at + 8 + length].decode(), at + 8 + length


def skip_value(content: bytes, at: int, kind: int) -> int:
    """Return where a value of GGUF's metadata ends."""
    if kind == 8:
        return read_text(content, at)[1]
    if kind == 9:
        inner, length = struct.unpack_from("<IQ", content, at)
        at += 12
        if length > len(content):
            raise ImatrixError("it is cut off")
        for _ in range(length):
            at = skip_value(content, at, inner)
        return at
    return at + VALUE_BYTES[kind]


def write_line(fields: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
