"""Makes a whole model of a checkpoint on this node: files come, the program merges, the model goes to a frontend."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from corral.domain.errors import Unprocessable
from corral.domain.fine_tuning import FineTunePhase
from corral.policy.fine_tuning import compute_percent
from corral.transfer.files import run_in_thread
from corral.wire.fine_tuning import FineTuneSourceOut
from corral.wire.run_work import RunOutcome, RunSpec
from corral.worker.programs.program_host import ProgramProgress
from corral.worker.programs.program_preparer import ProgramPreparer
from corral.worker.programs.program_process import run_program_lines
from corral.worker.programs.trainer import fetch_checkpoint, list_files, write_request
from corral.worker.runs.trace_sender import RunAttempt

RESULT_FOLDER = "export"
_PHASES = (FineTunePhase.LOADING_MODEL, FineTunePhase.MERGING, FineTunePhase.SAVING)


class TrainingExporter:
    """Executes exports of fine-tunings on this worker. Implements `ProgramWork`."""

    def __init__(self, preparer: ProgramPreparer) -> None:
        self._preparer = preparer

    async def execute(self, ids: RunAttempt, spec: RunSpec, progress: ProgramProgress) -> RunOutcome:
        preparer, on_fraction = self._preparer, partial(_report, progress, FineTunePhase.DOWNLOADING)
        on_fraction(0.0)
        await preparer.tidy()
        preparer.require_room(spec)
        source = await preparer.wait_for_source(ids, "fine-tuning", FineTuneSourceOut, on_fraction)
        model = await preparer.fetch_model(source, on_fraction) / source.folder
        runnable = await preparer.ensure_backend(spec)
        async with preparer.open_folder(ids) as folder:
            checkpoint = await fetch_checkpoint(preparer, ids, source, folder)
            if checkpoint is None:
                raise Unprocessable("The checkpoint of the export was deleted.", code="no_checkpoint")
            output = folder / RESULT_FOLDER
            output.mkdir()
            request = {"action": "export", "checkpoint": str(checkpoint), "threads": preparer.deps.threads}
            options = write_request(folder, request, output)
            launch = preparer.make_launch(runnable, spec, model, folder, options)
            await run_program_lines(launch, partial(_report_line, progress))
            answer = await self._send(ids, output, progress)
        model_name, problem = str(answer.get("model") or ""), str(answer.get("problem") or "")
        if problem:
            return RunOutcome(state="failed", reason="error", error_code="export_failed", error_text=problem)
        return RunOutcome(state="completed", content=f"It is the model {model_name}.", result={"model": model_name})

    async def _send(self, ids: RunAttempt, output: Path, progress: ProgramProgress) -> dict[str, Any]:
        """Send all files of the model, and return what the frontend has made of them."""
        paths = await run_in_thread(partial(list_files, output))
        sizes = await run_in_thread(lambda _stop: {path: path.stat().st_size for path in paths})
        total_bytes, before = sum(sizes.values()) or 1, 0

        def on_progress(sent: int, _total: int) -> None:
            _report(progress, FineTunePhase.SAVING, (before + sent) / total_bytes)

        for path in paths:
            await self._preparer.send_file(
                ids, path, ("result-files",), on_progress, folder=RESULT_FOLDER, path=path.name
            )
            before += sizes[path]
        return await self._preparer.call(ids, ("fine-tuning", "export"))


def _report(progress: ProgramProgress, phase: FineTunePhase, fraction: float) -> None:
    progress.report(phase, compute_percent(phase, fraction))


def _report_line(progress: ProgramProgress, fields: Mapping[str, Any]) -> None:
    if fields.get("phase") in _PHASES:
        _report(progress, FineTunePhase(str(fields["phase"])), 0.0)
