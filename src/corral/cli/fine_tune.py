"""`corral fine-tune …`: commands for fine-tunings, which train models on examples. An id can be shortened."""

from __future__ import annotations

import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import CommandSession, register_command
from corral.cli.completion import complete_model_names
from corral.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from corral.wire.fine_tuning import CheckpointOut, DatasetOut, FineTuneExportOut, FineTuneOut

# Between two lines about progress.
_PERCENT_STEP = 5.0
_FULL_ID_LENGTH = 36
_LISTED_MAX = 200
_INTERRUPTED = 130
_EXPORT_LOOK_S = 1.0

app = typer.Typer(
    help="Train a model on examples: datasets, jobs, checkpoints and exports.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
datasets = typer.Typer(
    help="Datasets of examples: upload, list and delete.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(datasets, name="datasets")
JobArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the fine-tuning, or its beginning or end.")]
ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="The model to train.", autocompletion=complete_model_names)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting, such as learning_rate=1e-4. Repeatable."),
]
DetachOption = Annotated[bool, typer.Option("--detach", "-d", help="Do not wait for the end.")]


@register_command(app, "start")
async def start_fine_tuning(
    session: CommandSession,
    model: ModelArgument,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A file to upload, or the name of a dataset.")],
    *,
    method: Annotated[str, typer.Option("--method", "-m", help="sft, dpo, kto, grpo, rloo or reward.")] = "sft",
    full: Annotated[bool, typer.Option("--full", help="Train all weights instead of an adapter.")] = False,
    epochs: Annotated[float | None, typer.Option("--epochs", help="How often all examples are read.  [3]")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="End after so many steps.")] = None,
    rank: Annotated[int | None, typer.Option("--rank", help="Rank of the adapter.  [16]")] = None,
    reward: Annotated[
        list[str] | None, typer.Option("--reward", help="A built-in reward function, for grpo and rloo. Repeatable.")
    ] = None,
    setting: SetOption = None,
    backend: Annotated[str, typer.Option("--backend", help="The backend that trains.")] = "",
    detach: DetachOption = False,
) -> None:
    """Train a model on a dataset. Without --detach, the progress is shown to the end."""
    body: dict[str, Any] = {
        "model": model,
        "training_method": method,
        "training_type": "full" if full else "lora",
        "backend": backend,
    }
    more = {"num_epochs": epochs, "max_steps": steps, "adapter_rank": rank, "reward_functions": reward or None}
    body |= {name: value for name, value in more.items() if value is not None} | _parse_settings(setting or [])
    path = Path(dataset)
    if os.path.isfile(path):  # noqa: PTH113, ASYNC240 - a look before a command does anything
        made = await session.client.fine_tunes.upload_dataset(path)
        render.print_notice(f"Uploaded {made.name}: {made.rows:,} rows.")
        body["dataset_source"] = made.id
    else:
        body["dataset_source"] = dataset
    await _start(session, body, detach=detach)


@register_command(app, "resume")
async def resume_fine_tuning(
    session: CommandSession,
    job: JobArgument,
    *,
    checkpoint: Annotated[str, typer.Option("--checkpoint", "-c", help="Such as checkpoint-20.  [the newest]")] = "",
    setting: SetOption = None,
    detach: DetachOption = False,
) -> None:
    """Go on from a checkpoint of a fine-tuning, as a job of its own, on any node with room."""
    job_id = await _find_id(session, job)
    earlier = await session.client.fine_tunes.get(job_id)
    body = {
        **earlier.parameters,
        "model": earlier.model,
        "backend": earlier.backend,
        "dataset_source": earlier.dataset_id,
        "resume_from_checkpoint": f"{job_id}/{checkpoint}" if checkpoint else job_id,
        **_parse_settings(setting or []),
    }
    await _start(session, body, detach=detach)


@register_command(app, "watch")
async def watch_fine_tuning(session: CommandSession, job: JobArgument) -> None:
    """Show the progress of a fine-tuning to its end."""
    found = await session.client.fine_tunes.get(await _find_id(session, job))
    _end(session, await _follow(session, found))


@register_command(app, "list")
async def list_fine_tunings(
    session: CommandSession,
    *,
    limit: Annotated[int, typer.Option(min=1, max=_LISTED_MAX, help="How many to list at most.")] = 50,
    all_users: Annotated[bool, typer.Option("--all-users", help="For admins: those of all users.")] = False,
) -> None:
    """List your fine-tunings, newest first."""
    found = (await session.client.fine_tunes.list(limit=limit, all_users=all_users)).jobs
    if session.as_json:
        render.print_json([job.model_dump(mode="json") for job in found])
    elif found:
        render.print_data(_format_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("You have no fine-tunings. Start one: corral fine-tune start MODEL FILE")


@register_command(app, "show")
async def show_fine_tuning(session: CommandSession, job: JobArgument) -> None:
    """Show one fine-tuning with its checkpoints and exports."""
    found = await session.client.fine_tunes.get(await _find_id(session, job))
    checkpoints = (await session.client.fine_tunes.list_checkpoints(found.id)).checkpoints
    if session.as_json:
        listed = [one.model_dump(mode="json") for one in checkpoints]
        render.print_json(found.model_dump(mode="json") | {"checkpoints": listed})
        return
    colour, now = render.has_colour(sys.stdout), session.read_time()
    render.print_data(_format_job(found))
    if checkpoints:
        render.print_data("\n" + _format_checkpoints(checkpoints, now, colour=colour))
    if found.exports:
        render.print_data("\n" + _format_exports(found.exports, now, colour=colour))


@register_command(app, "curve")
async def show_curve(session: CommandSession, job: JobArgument) -> None:
    """Show the curve of a fine-tuning: its losses, step by step."""
    curve = await session.client.fine_tunes.read_curve(await _find_id(session, job))
    if session.as_json:
        render.print_json([point.model_dump(mode="json") for point in curve.points])
        return
    rows = [[str(point.step), _format_loss(point.loss), _format_loss(point.eval_loss)] for point in curve.points]
    render.print_data(render.format_table(("STEP", "LOSS", "HELD OUT"), rows, colour=render.has_colour(sys.stdout)))


@register_command(app, "stop")
async def stop_fine_tuning(
    session: CommandSession,
    job: JobArgument,
    *,
    no_save: Annotated[bool, typer.Option("--no-save", help="At once, without a checkpoint.")] = False,
) -> None:
    """Stop a fine-tuning behind its present step, with a checkpoint from which it can go on."""
    stopped = await session.client.fine_tunes.stop(await _find_id(session, job), saves=not no_save)
    if session.as_json:
        render.print_json(stopped.model_dump(mode="json"))
    elif stopped.is_stopping:
        render.print_notice(f"It ends with a checkpoint. Go on later: corral fine-tune resume {stopped.id}")
    else:
        render.print_notice(f"Stopped the fine-tuning of {stopped.model}.")


@register_command(app, "export")
async def export_fine_tuning(
    session: CommandSession,
    job: JobArgument,
    *,
    kind: Annotated[str, typer.Option("--format", "-f", help="lora, merged_16bit or gguf.")] = "lora",
    weight_type: Annotated[str, typer.Option("--type", "-t", help="Type of the weights of a gguf.  [q4_k_m]")] = "",
    name: Annotated[str, typer.Option("--name", "-n", help="Name of the model.  [MODEL-ft-…]")] = "",
    checkpoint: Annotated[str, typer.Option("--checkpoint", "-c", help="Such as checkpoint-20.  [the newest]")] = "",
    detach: DetachOption = False,
) -> None:
    """Make a model of a checkpoint: the adapter, a whole model in 16 bits, or a quantised GGUF file."""
    job_id = await _find_id(session, job)
    body = {
        "export_format": kind,
        "quantization_method": weight_type,
        "name": name,
        "checkpoint_path": checkpoint,
    }
    made = await session.client.fine_tunes.export(job_id, body)
    if not detach:
        made = await _wait_for_export(session, job_id, made)
    if session.as_json:
        render.print_json(made.model_dump(mode="json"))
    else:
        if made.model_name:
            render.print_data(made.model_name)
        text = made.message or f"The export is going on. Look at it: corral fine-tune show {job_id}"
        render.print_notice(render.clean_text(text))
    if made.status == "failed":
        raise typer.Exit(1)


@register_command(app, "download")
async def download_fine_tuning(
    session: CommandSession,
    job: JobArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The tar.gz file to write, which must not exist.")],
    *,
    checkpoint: Annotated[str, typer.Option("--checkpoint", "-c", help="Such as checkpoint-20.  [the newest]")] = "",
) -> None:
    """Download a checkpoint: the adapter or the weights, as a tar.gz archive."""
    job_id = await _find_id(session, job)
    try:
        with file.open("xb") as target:
            size_bytes = await session.client.fine_tunes.download(job_id, checkpoint, target)
    except OSError as error:
        raise InvalidRequest(
            f"{file} cannot be written: {error.strerror}.",
            hint="Choose another path, of a file that does not exist yet.",
        ) from error
    if session.as_json:
        render.print_json({"path": str(file), "size_bytes": size_bytes})
    else:
        render.print_notice(f"Wrote {render.format_size(size_bytes)} to {file}.")


@register_command(app, "delete")
async def delete_fine_tuning(session: CommandSession, job: JobArgument) -> None:
    """Delete a fine-tuning that has ended, with its checkpoints. Models that it has become stay."""
    await session.client.fine_tunes.delete(await _find_id(session, job))
    if not session.as_json:
        render.print_notice("Deleted the fine-tuning with its checkpoints. Models that it has become stay.")


@register_command(datasets, "upload")
async def upload_dataset(
    session: CommandSession,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of JSON lines, CSV or JSON.")],
    *,
    name: Annotated[str, typer.Option("--name", "-n", help="Another name than that of the file.")] = "",
) -> None:
    """Upload a dataset. A broken one is refused with the numbers of its lines."""
    made = await session.client.fine_tunes.upload_dataset(file, name)
    if session.as_json:
        render.print_json(made.model_dump(mode="json"))
        return
    render.print_data(made.id)
    render.print_notice(f"Uploaded {made.name}: {made.rows:,} rows with {', '.join(made.columns)}.")


@register_command(datasets, "list")
async def list_datasets(session: CommandSession) -> None:
    """List your datasets, newest first."""
    found = (await session.client.fine_tunes.list_datasets()).datasets
    if session.as_json:
        render.print_json([one.model_dump(mode="json") for one in found])
    elif found:
        render.print_data(_format_datasets(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("You have no datasets. Upload one: corral fine-tune datasets upload FILE")


@register_command(datasets, "delete")
async def delete_dataset(
    session: CommandSession,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Name or id of the dataset.")],
) -> None:
    """Delete a dataset that no active fine-tuning needs."""
    await session.client.fine_tunes.delete_dataset(dataset)
    if not session.as_json:
        render.print_notice("Deleted the dataset.")


def _parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Return settings of the form NAME=VALUE, numbers as numbers."""
    import json

    found: dict[str, Any] = {}
    for one in settings:
        name, separator, text = one.partition("=")
        if not separator or not name:
            raise InvalidRequest(f"{one!r} is no setting.", hint="Write NAME=VALUE, such as learning_rate=1e-4.")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


async def _find_id(session: CommandSession, text: str) -> str:
    """Return the full id for a short one, among the newest fine-tunings."""
    from corral.cli.operation_views import resolve_id

    if len(text) >= _FULL_ID_LENGTH:
        return text
    listed = await session.client.fine_tunes.list(limit=_LISTED_MAX)
    return resolve_id([job.id for job in listed.jobs], text)


async def _start(session: CommandSession, body: dict[str, Any], *, detach: bool) -> None:
    started = await session.client.fine_tunes.start(body)
    if not detach:
        _end(session, await _follow(session, started))
    elif session.as_json:
        render.print_json(started.model_dump(mode="json"))
    else:
        render.print_data(started.id)
        render.print_notice(f"Started. Watch it: corral fine-tune watch {started.id}")


async def _follow(session: CommandSession, job: FineTuneOut) -> FineTuneOut:
    """Print how far a fine-tuning is until it has ended, and return it."""
    import asyncio

    last_phase, last_percent = "", -_PERCENT_STEP
    try:
        async with aclosing(session.client.fine_tunes.follow(job.id)) as events:
            async for event in events:
                phase, percent = event.data.get("phase"), event.data.get("percent")
                if event.type != "status" or not isinstance(phase, str) or not isinstance(percent, int | float):
                    continue
                if session.as_json or (phase == last_phase and percent < last_percent + _PERCENT_STEP):
                    continue
                last_phase, last_percent = phase, float(percent)
                render.print_notice(render.clean_text(_describe_progress(phase, float(percent), event.data)))
    except asyncio.CancelledError:
        render.print_notice(f"The fine-tuning goes on. Look at it: corral fine-tune show {job.id}")
        raise typer.Exit(_INTERRUPTED) from None
    return await session.client.fine_tunes.get(job.id)


def _describe_progress(phase: str, percent: float, data: dict[str, Any]) -> str:
    text = f"{phase.replace('_', ' ').capitalize()}: {percent:.0f} %"
    if isinstance(data.get("step"), int):
        text += f", step {data['step']} of {data.get('total')}"
    if isinstance(data.get("loss"), int | float):
        text += f", loss {data['loss']:.4f}"
    return text


def _end(session: CommandSession, job: FineTuneOut) -> None:
    """Print how a fine-tuning has ended."""
    if session.as_json:
        render.print_json(job.model_dump(mode="json"))
    elif job.status == "completed":
        render.print_data(job.id)
        render.print_notice(f"Trained {job.current_step} steps. Make a model of it: corral fine-tune export {job.id}")
    else:
        render.print_notice(render.clean_text(f"The fine-tuning of {job.model} {job.status}: {job.message}"))
    if job.status != "completed":
        raise typer.Exit(1)


async def _wait_for_export(session: CommandSession, job_id: str, export: FineTuneExportOut) -> FineTuneExportOut:
    """Wait until an export has ended, and return it."""
    import asyncio

    while export.status == "exporting":
        await asyncio.sleep(_EXPORT_LOOK_S)
        job = await session.client.fine_tunes.get(job_id)
        export = next(one for one in job.exports if one.id == export.id)
    return export


def _format_list(found: Sequence[FineTuneOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            job.id,
            job.model,
            f"{job.training_method}, {job.training_type}",
            job.status,
            f"{job.progress_percent:.0f} %",
            _format_loss(job.loss),
            job.export_model_name or render.NONE,
            render.format_age(job.created_at, now),
        ]
        for job in found
    ]
    titles = ("ID", "MODEL", "TRAINING", "STATUS", "DONE", "LOSS", "BECAME", "AGE")
    return render.format_table(titles, rows, colour=colour)


def _format_loss(value: float | None) -> str:
    return render.NONE if value is None else f"{value:.4f}"


def _format_job(job: FineTuneOut) -> str:
    losses = [
        f"{name} {value:.4f}" for name, value in (("", job.loss), ("held out", job.eval_loss)) if value is not None
    ]
    facts = {
        "Fine-tuning": job.id,
        "Model": job.model,
        "Training": f"{job.training_method}, {job.training_type}",
        "Dataset": job.dataset_source,
        "Status": f"{job.status}, {job.progress_percent:.0f} %" + (", ends with a checkpoint" * job.is_stopping),
        "Message": job.message,
        "Step": f"{job.current_step} of {job.total_steps}" if job.total_steps else "",
        "Loss": ", ".join(text.strip() for text in losses),
        "Left": f"about {job.eta_seconds:.0f} s" if job.eta_seconds else "",
        "Node": job.node_name,
        "Goes on from": job.resumed_from,
        "Tool": str(job.result.get("tool") or ""),
        "Run": job.run_id,
    }
    return render.format_facts({name: render.clean_text(value) for name, value in facts.items() if value})


def _format_checkpoints(found: Sequence[CheckpointOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            one.name,
            _format_loss(one.loss),
            render.format_size(one.size_bytes),
            render.format_age(one.created_at, now),
        ]
        for one in found
    ]
    return render.format_table(("CHECKPOINT", "LOSS", "SIZE", "AGE"), rows, colour=colour)


def _format_exports(found: Sequence[FineTuneExportOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            one.name,
            one.export_format + (f" {one.quantization_method}" if one.quantization_method else ""),
            one.checkpoint,
            one.status,
            render.clean_text(one.message),
            render.format_age(one.created_at, now),
        ]
        for one in found
    ]
    return render.format_table(("EXPORT", "FORMAT", "CHECKPOINT", "STATUS", "MESSAGE", "AGE"), rows, colour=colour)


def _format_datasets(found: Sequence[DatasetOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            one.name,
            f"{one.rows:,}",
            ", ".join(one.columns),
            render.format_size(one.size_bytes),
            one.id,
            render.format_age(one.created_at, now),
        ]
        for one in found
    ]
    return render.format_table(("DATASET", "ROWS", "COLUMNS", "SIZE", "ID", "AGE"), rows, colour=colour)
