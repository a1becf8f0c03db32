"""What the supervision of a quantisation costs beside the same library called directly, and how much memory both take.

Ours is the program as a worker runs it: the launcher with its progress, in a group of its own, with its output read as
lines. Baseline in turns with it: a child that makes the same two calls of the library and nothing else. Processor time
is compared, because other programs of the machine take their share of the time. Limit: the ways of the files before and
after it are not part of this.
"""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.report import ReportRow, format_table, print_progress
from corral.engines import list_gallery_files, read_launcher
from corral.worker.programs.program_process import ProgramLaunch, run_program_lines
from tests.support.tiny_gguf import ModelShape, write_tiny_gguf

ROUNDS = 3
PACKAGE = "@node-llama-cpp/linux-x64@3.22.1"
# About 30 million weights.
SHAPE = ModelShape(layers=2, width=1024, feed_forward=4096, context=512)
THREADS = 2
FILE_TYPE, FILE_TYPE_NUMBER = "q4_k_m", 15
MIB = 1024**2
_DIRECT = """
import ctypes, sys
folder, source, output, threads, kind = sys.argv[1:6]
sys.path.insert(0, sys.argv[6])
import launcher
llama, _ = launcher.load_library(launcher.Path(folder))
silent = launcher.LOG_CALLBACK(lambda level, text, data: None)
llama.llama_log_set(silent, None)
parameters = llama.llama_model_quantize_default_params()
parameters.nthread, parameters.ftype = int(threads), int(kind)
sys.exit(llama.llama_model_quantize(source.encode(), output.encode(), ctypes.byref(parameters)))
"""


def run() -> str:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        folder = Path(name)
        _unpack_library(folder)
        source = write_tiny_gguf(folder / "source.gguf", shape=SHAPE, is_half=True)
        (folder / "launcher.py").write_text(read_launcher("llama_quantize") or "")
        measured: dict[str, list[dict[str, float]]] = {"ours": [], "the library": []}
        for number in range(ROUNDS):
            for who, found in measured.items():
                print_progress(f"quantisation, round {number + 1}: {who}")
                found.append(_measure(who, folder, source))
        size = source.stat().st_size / MIB
    rows = [
        ReportRow(who, {key: statistics.median(one[key] for one in several) for key in several[0]})
        for who, several in measured.items()
    ]
    title = f"{size:,.0f} MiB of F16 to {FILE_TYPE.upper()}, {THREADS} threads, median of {ROUNDS}"
    return format_table(title, rows, ratio_of=("CPU s", "s", "peak MiB"))


def _unpack_library(folder: Path) -> None:
    """Fetch the package that the gallery names, with the npm of this machine."""
    gallery = next(path for path in list_gallery_files() if path.stem == "llama-cpp-quantization")
    assert f"npm:{PACKAGE}" in gallery.read_text(encoding="utf-8"), "the gallery has another version"
    npm = shutil.which("npm")
    assert npm is not None, "npm is needed to fetch the library"
    subprocess.run([npm, "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True)
    (folder / "library").mkdir()
    subprocess.run(["tar", "-xzf", *map(str, folder.glob("*.tgz")), "-C", str(folder / "library")], check=True)


def _measure(who: str, folder: Path, source: Path) -> dict[str, float]:
    """Measure one quantisation in a process of its own, whose only child is the program."""
    command = [sys.executable, "-m", "bench.quantization", who, str(folder), str(source)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _run_one(who: str, folder: Path, source: Path) -> None:
    output = folder / "result.gguf"
    output.unlink(missing_ok=True)
    began = time.perf_counter()
    if who == "ours":
        command = (
            sys.executable, "-I", str(folder / "launcher.py"), "--watch-stdin", f"--library={folder / 'library'}",
            f"--model={source}", f"--threads={THREADS}", f"--output={output}", f"--type={FILE_TYPE}",
        )  # fmt: skip
        launch = ProgramLaunch(command=command, environment={}, directory=folder)
        asyncio.run(run_program_lines(launch, lambda _line: None))
    else:
        arguments = [
            str(folder / "library"),
            str(source),
            str(output),
            str(THREADS),
            str(FILE_TYPE_NUMBER),
            str(folder),
        ]
        subprocess.run([sys.executable, "-c", _DIRECT, *arguments], check=True, env={})
    took = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    numbers = {"CPU s": used.ru_utime + used.ru_stime, "s": took, "peak MiB": used.ru_maxrss / 1024}
    print(json.dumps(numbers))


if __name__ == "__main__":
    _run_one(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
