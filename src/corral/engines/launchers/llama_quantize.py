"""Makes a GGUF file smaller with llama.cpp's own `llama_model_quantize`, and prints its progress as lines of JSON.

The libraries are those of a package of node-llama-cpp, called through ctypes. They print and may abort, so this program
is a process of its own for one file. Each line on standard output is an object: `{"phase", "fraction"}` while it works,
then one last line, `{"result": …}` or `{"error", "code"}`. The layout of the parameters belongs to one version of the
library: it is compared with the library's own defaults before any use, and another layout is refused.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
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
    }
    write_line({"phase": "quantizing", "fraction": 1.0})
    write_line({"result": result})
    return 0


def write_line(fields: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
