"""Trains one model on this node: files, dataset, checkpoint and backend come, the program trains, checkpoints go.

    room is checked ──> files arrive ──> backend is installed ──> the program trains ──> the last checkpoint is sent
                                                                     │ each checkpoint is sent while it goes on

Guarantees are those of `ProgramPreparer`. A checkpoint is moved out of the program's folder as soon as it is whole, so
that the program cannot delete it; if they come faster than they can be sent, only the newest waits. Limit: the disk
holds at most the one that is sent, the one that waits, and the one that is written.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from corral.bus.messages import BlobSource, ModelFileItem
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.domain.fine_tuning import FineTunePhase
from corral.policy.fine_tuning import compute_percent
from corral.runtime.attempt import AttemptFailure, attempt
from corral.transfer.files import run_in_thread
from corral.wire.fine_tuning import FineTuneSourceOut
from corral.wire.run_work import RunOutcome, RunSpec
from corral.worker.job_ports import RunnableBackend
from corral.worker.programs.program_host import ProgramProgress
from corral.worker.programs.program_preparer import NullProgressListener, ProgramPreparer
from corral.worker.programs.program_process import ProgramInput, run_program_lines
from corral.worker.runs.trace_sender import RunAttempt

log = structlog.get_logger(__name__)
# How often the worker reads whether the training is to end.
STATE_INTERVAL_S = 2.0
# Points of one attempt; a trainer makes about a thousand.
POINTS_MAX = 5000
STOP = "stop"
_NUMBERS = ("epoch", "loss", "learning_rate", "grad_norm", "eval_loss", "reward", "eta_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCheckpoint:
    """A checkpoint that lies whole in a folder of the worker, with the values of its step."""

    folder: Path
    step: int
    epoch: float | None
    loss: float | None


@dataclass(slots=True, kw_only=True)
class TrainingState:
    """What a worker knows of the training that its program does now."""

    progress: ProgramProgress
    output: Path
    outbox: Path
    points: int = 0
    latest: dict[str, Any] = field(default_factory=dict)
    # The newest checkpoint that was not taken to be sent yet.
    waiting: SentCheckpoint | None = None
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    has_ended: bool = False

    def on_line(self, fields: Mapping[str, Any]) -> None:
        """Take a line of the program: a phase, a point of the curve, or a checkpoint."""
        phase, point, checkpoint = fields.get("phase"), fields.get("point"), fields.get("checkpoint")
        if phase in (FineTunePhase.LOADING_MODEL, FineTunePhase.LOADING_DATASET, FineTunePhase.TRAINING):
            known = FineTunePhase(phase)
            self.progress.report(known, compute_percent(known, 0.0))
        if isinstance(point, Mapping):
            self._on_point(point)
        if isinstance(checkpoint, Mapping):
            self._on_checkpoint(checkpoint)

    def end(self) -> None:
        """Note that the program has ended: no further checkpoint comes."""
        self.has_ended = True
        self.arrived.set()

    def _on_point(self, point: Mapping[str, Any]) -> None:
        step, total = _get_count(point, "step"), _get_count(point, "total")
        values = {name: point[name] for name in _NUMBERS if isinstance(point.get(name), int | float)}
        self.latest = {**self.latest, **values}
        self.points += 1
        if self.points <= POINTS_MAX:
            percent = compute_percent(FineTunePhase.TRAINING, step / total if total else 0.0)
            self.progress.report_point(FineTunePhase.TRAINING, percent, {"step": step, "total": total, **values})

    def _on_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        step = _get_count(checkpoint, "step")
        made = self.output / Path(str(checkpoint.get("folder") or "none")).name
        if not made.is_dir():
            return
        kept = self.outbox / f"checkpoint-{step}"
        made.rename(kept)
        passed, self.waiting = (
            self.waiting,
            SentCheckpoint(folder=kept, step=step, epoch=self.latest.get("epoch"), loss=self.latest.get("loss")),
        )
        if passed is not None:
            shutil.rmtree(passed.folder, ignore_errors=True)
        self.arrived.set()


class Trainer:
    """Executes fine-tunings on this worker. Implements `ProgramWork`."""

    def __init__(self, preparer: ProgramPreparer) -> None:
        self._preparer = preparer

    async def execute(self, ids: RunAttempt, spec: RunSpec, progress: ProgramProgress) -> RunOutcome:
        preparer, on_fraction = self._preparer, partial(_report_download, progress)
        on_fraction(0.0)
        await preparer.tidy()
        preparer.require_room(spec)
        source = await preparer.wait_for_source(ids, "fine-tuning", FineTuneSourceOut, on_fraction)
        model = await preparer.fetch_model(source, on_fraction) / source.folder
        runnable = await preparer.ensure_backend(spec)
        async with preparer.open_folder(ids) as folder:
            await self._fetch_dataset(ids, spec, folder / "dataset")
            checkpoint = await fetch_checkpoint(preparer, ids, source, folder)
            result = await self._train(ids, spec, (runnable, model, checkpoint, folder), progress)
        return _make_outcome(result)

    async def _fetch_dataset(self, ids: RunAttempt, spec: RunSpec, path: Path) -> None:
        """Fetch the examples, and check that they are those that were uploaded."""
        promised = _get_mapping(spec.extra, "dataset")
        digest, size_bytes = hashlib.sha256(), _get_count(promised, "size_bytes")
        with path.open("xb") as file:
            while file.tell() < size_bytes:
                answer = await self._preparer.call(ids, ("fine-tuning", "dataset"), verb="GET", start=file.tell())
                piece = base64.b64decode(str(answer.get("content") or ""))
                if not piece:
                    break
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != promised.get("sha256"):
            raise Unprocessable("The dataset has arrived damaged, or was deleted.", code="dataset_damaged")

    async def _train(
        self,
        ids: RunAttempt,
        spec: RunSpec,
        parts: tuple[RunnableBackend, Path, Path | None, Path],
        progress: ProgramProgress,
    ) -> dict[str, Any]:
        runnable, model, checkpoint, folder = parts
        state = TrainingState(progress=progress, output=folder / "output", outbox=folder / "outbox")
        for made in (state.output, state.outbox):
            made.mkdir()
        request = {
            **_get_mapping(spec.extra, "parameters"),
            "action": "train",
            "model_name": str(spec.extra.get("model") or ""),
            "dataset": str(folder / "dataset"),
            "dataset_format": str(_get_mapping(spec.extra, "dataset").get("format") or "jsonl"),
            "resume_from": str(checkpoint or ""),
            "threads": self._preparer.deps.threads,
        }
        options = write_request(folder, request, state.output)
        launch = self._preparer.make_launch(runnable, spec, model, folder, options)
        stdin = ProgramInput()
        async with asyncio.TaskGroup() as group:
            # As values: the group would wrap the errors.
            sending = group.create_task(attempt(lambda: self._send_checkpoints(ids, state)))
            watching = group.create_task(self._watch_state(ids, stdin))
            program = group.create_task(attempt(lambda: run_program_lines(launch, state.on_line, stdin)))
            await asyncio.wait({program, sending}, return_when=asyncio.FIRST_COMPLETED)
            watching.cancel()
            if sending.done():
                # A training whose checkpoints cannot be kept is in vain.
                program.cancel()
            elif isinstance(program.result(), AttemptFailure):
                sending.cancel()
            else:
                progress.report(FineTunePhase.SAVING, compute_percent(FineTunePhase.SAVING, 0.0))
                state.end()
        for task in (sending, program):
            if not task.cancelled() and isinstance(failed := task.result(), AttemptFailure):
                raise failed.error
        outcome = program.result()
        assert not isinstance(outcome, AttemptFailure), "it was just raised"
        return outcome.value

    async def _watch_state(self, ids: RunAttempt, stdin: ProgramInput) -> None:
        """Tell the program to end behind its present step, once that was requested."""
        while True:
            outcome = await attempt(lambda: self._preparer.call(ids, ("fine-tuning", "state")))
            if not isinstance(outcome, AttemptFailure) and outcome.value.get("must_stop") is True:
                # Again and again: a program that has just started does not read yet.
                stdin.write_line(STOP)
            await self._preparer.deps.clock.sleep(STATE_INTERVAL_S)

    async def _send_checkpoints(self, ids: RunAttempt, state: TrainingState) -> None:
        """Send each checkpoint, the newest first, until the program has ended and all are sent."""
        while not (state.has_ended and state.waiting is None):
            await state.arrived.wait()
            state.arrived.clear()
            taken, state.waiting = state.waiting, None
            if taken is None:
                continue
            for path in await run_in_thread(partial(list_files, taken.folder)):
                await self._preparer.send_file(
                    ids, path, ("result-files",), _ignore, folder=taken.folder.name, path=path.name
                )
            await self._preparer.call(
                ids, ("fine-tuning", "checkpoint"), step=taken.step, epoch=taken.epoch, loss=taken.loss
            )
            await run_in_thread(partial(_remove, taken.folder))
            if state.has_ended:
                state.end()


def write_request(folder: Path, request: Mapping[str, Any], output: Path) -> dict[str, str]:
    """Write what the program is to do, and return the options that name it."""
    path = folder / "request.json"
    path.write_text(json.dumps(request), encoding="utf-8")
    return {"request": str(path), "output": str(output)}


async def fetch_checkpoint(
    preparer: ProgramPreparer, ids: RunAttempt, source: FineTuneSourceOut, folder: Path
) -> Path | None:
    """Fetch the checkpoint that a program begins with into a folder of its own; None if there is none."""
    files = tuple(ModelFileItem(**one) for one in source.checkpoint_files)
    if not files:
        return None
    sources = tuple(BlobSource(**one) for one in source.checkpoint_sources)
    name = f"checkpoint-of-{ids.run_id}"
    held = await preparer.deps.files.ensure_files(name, ids.job_id, files, sources, NullProgressListener())
    target = folder / "checkpoint"
    await run_in_thread(lambda _stop: shutil.copytree(held, target))
    # As a copy of no model it would be deleted anyway, but later.
    await preparer.deps.files.delete(name)
    return target


def list_files(folder: Path, _stop: object) -> list[Path]:
    """Return the files in a folder, in order."""
    return sorted(path for path in folder.iterdir() if path.is_file())


def _ignore(sent: int, total: int) -> None:
    del sent, total


def _remove(folder: Path, _stop: object) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _report_download(progress: ProgramProgress, fraction: float) -> None:
    progress.report(FineTunePhase.DOWNLOADING, compute_percent(FineTunePhase.DOWNLOADING, fraction))


def _get_mapping(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = fields.get(name)
    if not isinstance(found, Mapping):
        raise InvalidRequest(f"The work of the run has no {name}.", code="bad_work")
    return found


def _get_count(fields: Mapping[str, Any], name: str) -> int:
    found = fields.get(name)
    return found if isinstance(found, int) and 0 <= found < 2**53 else 0


def _make_outcome(result: Mapping[str, Any]) -> RunOutcome:
    kept = {name: value for name, value in result.items() if isinstance(value, str | int | float | bool | None)}
    step, total, loss = _get_count(kept, "step"), _get_count(kept, "total"), kept.get("loss")
    text = f"Trained {step} of {total} steps" + (f", mean loss {loss:.4f}" if isinstance(loss, float) else "")
    if kept.get("is_stopped"):
        text += ". It was stopped, and can go on from its last checkpoint."
        return RunOutcome(state="cancelled", reason="cancelled", content=text, result=dict(kept))
    return RunOutcome(state="completed", content=f"{text}.", result=dict(kept))
