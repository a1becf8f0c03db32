"""Quantises one model on this node: the files, the backend, the program, and the way of the result to a frontend.

    room is checked ──> files arrive ──> backend is installed ──> the program works ──> the result is sent

Guarantees: nothing is fetched before there is room for it and for the result; what the program has written is deleted,
however the run ends, also after the worker was killed. A run that is begun once more finds fetched files and sent bytes
again. Limit: work in progress is lost with its worker.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from corral.domain.quantization import QuantizationPhase
from corral.policy.quantization import HALF, SAFETENSORS, compute_percent
from corral.wire.quantization import QuantizationSourceOut
from corral.wire.run_work import RunOutcome, RunSpec
from corral.worker.programs.program_host import ProgramProgress
from corral.worker.programs.program_preparer import ProgramPreparer
from corral.worker.programs.program_process import run_program_lines
from corral.worker.runs.trace_sender import RunAttempt

RESULT_NAME = "result.gguf"
# What a converter has made, before it is quantised.
HALF_NAME = "half.gguf"
_ADAPTER_OPTIONS = ("architecture", "heads", "kv_heads")


def has_quantizer_build() -> bool:
    """Return whether there is a build of the quantiser for this machine."""
    return sys.platform == "linux" and platform.machine().lower() in ("x86_64", "amd64")


class Quantizer:
    """Executes quantisations on this worker. Implements `ProgramWork`."""

    def __init__(self, preparer: ProgramPreparer) -> None:
        self._preparer = preparer

    async def execute(self, ids: RunAttempt, spec: RunSpec, progress: ProgramProgress) -> RunOutcome:
        preparer, on_fraction = self._preparer, partial(_report_download, progress)
        on_fraction(0.0)
        await preparer.tidy()
        preparer.require_room(spec)
        source = await preparer.wait_for_source(ids, "quantization", QuantizationSourceOut, on_fraction)
        model_folder = await preparer.fetch_model(source, on_fraction)
        model_path = model_folder / source.entry
        async with preparer.open_folder(ids) as folder:
            output = folder / RESULT_NAME
            make = self._convert if model_path.suffix == SAFETENSORS else self._quantize
            result = await make(model_path, output, _find_imatrix(spec, source, model_folder), spec, progress)
            answer = await self._send(ids, output, result, progress)
        return _make_outcome(answer, result)

    async def _quantize(
        self, model: Path, output: Path, imatrix: str, spec: RunSpec, progress: ProgramProgress
    ) -> dict[str, Any]:
        options = {"output": str(output), "type": str(spec.extra.get("weight_type") or "")}
        if imatrix:
            options["imatrix"] = imatrix
        return await self._run("build", model, options, spec, progress)

    async def _convert(
        self, model: Path, output: Path, imatrix: str, spec: RunSpec, progress: ProgramProgress
    ) -> dict[str, Any]:
        """Make a file in half precision of safetensors, and quantise it unless that is all that was requested."""
        adapter = spec.extra.get("adapter")
        options = {name: str(adapter[name]) for name in _ADAPTER_OPTIONS} if isinstance(adapter, Mapping) else {}
        half = output if spec.extra.get("weight_type") == HALF else output.with_name(HALF_NAME)
        converted = await self._run("converter", model, options | {"output": str(half)}, spec, progress)
        if half == output:
            return converted
        result = await self._quantize(half, output, imatrix, spec, progress)
        tools = f"{converted.get('tool', '')}; {result.get('tool', '')}"
        return result | {"tool": tools, "source_types": converted.get("source_types"), "is_requantized": False}

    async def _run(
        self, build: str, model: Path, options: Mapping[str, str], spec: RunSpec, progress: ProgramProgress
    ) -> dict[str, Any]:
        """Run the program of a build, which the work of the run names, and return its result."""
        runnable = await self._preparer.ensure_backend(spec, build)
        launch = self._preparer.make_launch(runnable, spec, model, Path(options["output"]).parent, options)
        return await run_program_lines(launch, partial(_report_line, progress))

    async def _send(
        self, ids: RunAttempt, path: Path, result: Mapping[str, Any], progress: ProgramProgress
    ) -> dict[str, Any]:
        """Send the file to a frontend and return what the frontend has made of it."""
        types = result.get("source_types")

        def on_progress(sent: int, total: int) -> None:
            fraction = sent / total if total else 0.0
            progress.report(QuantizationPhase.UPLOADING, compute_percent(QuantizationPhase.UPLOADING, fraction))

        on_progress(0, 0)
        return await self._preparer.send_file(
            ids,
            path,
            ("quantization", "result"),
            on_progress,
            tool=str(result.get("tool", ""))[:200],
            source_types=[str(kind)[:40] for kind in types[:50]] if isinstance(types, list) else [],
            is_requantized=bool(result.get("is_requantized")),
        )


def _report_download(progress: ProgramProgress, fraction: float) -> None:
    progress.report(QuantizationPhase.DOWNLOADING, compute_percent(QuantizationPhase.DOWNLOADING, fraction))


def _report_line(progress: ProgramProgress, fields: Mapping[str, Any]) -> None:
    """Tell a line of the program, if it is one about progress."""
    phase, fraction = fields.get("phase"), fields.get("fraction")
    if phase in (QuantizationPhase.CONVERTING, QuantizationPhase.QUANTIZING) and isinstance(fraction, int | float):
        known = QuantizationPhase(phase)
        progress.report(known, compute_percent(known, float(fraction)))


def _find_imatrix(spec: RunSpec, source: QuantizationSourceOut, folder: Path) -> str:
    """Return where the importance matrix lies on this node; empty without one."""
    name = spec.extra.get("imatrix")
    return str(folder / str(name)) if name and any(one.get("path") == name for one in source.files) else ""


def _make_outcome(answer: Mapping[str, Any], result: Mapping[str, Any]) -> RunOutcome:
    model, problem = str(answer.get("model") or ""), str(answer.get("problem") or "")
    size_bytes = int(answer.get("size_bytes") or 0)
    content = f"Made {answer.get('file_name')}, {size_bytes / 1024**2:,.1f} MiB."
    if result.get("is_requantized"):
        content += " The weights had been quantised before, so they lost precision twice."
    if model:
        content += f" It is the model {model}."
    elif problem:
        content += f" It is no model yet: {problem}"
    return RunOutcome(state="completed", content=content, result={"model": model, "size_bytes": size_bytes})
