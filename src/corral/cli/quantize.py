"""`corral quantize MODEL …`: commands for quantisations, which make models smaller. An id can be shortened."""

from __future__ import annotations

import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from corral.cli import render
from corral.cli.command import CommandSession, register_command
from corral.cli.completion import complete_model_names
from corral.cli.new_file import open_new_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from corral.wire.quantization import QuantizationOut

# Between two lines about progress.
_PERCENT_STEP = 10.0
_FULL_ID_LENGTH = 36
_LISTED_MAX = 200
_INTERRUPTED = 130
_GOOD_STATUSES = frozenset({"completed"})


class StartingGroup(TyperGroup):
    """Group of CLI commands that runs its command `start` when the first argument names no command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names_one = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        if args and not names_one and not ctx.resilient_parsing:
            args = ["start", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=StartingGroup,
    help="Make a model smaller: start, list, cancel and download quantisations.\n\n"
    "corral quantize MODEL --type q4_k_m makes a smaller model of MODEL.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
JobArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the quantisation, or its beginning or end.")]
ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A model with GGUF or safetensors files.", autocompletion=complete_model_names
    ),
]


@register_command(app, "start")
async def start_quantization(
    session: CommandSession,
    model: ModelArgument,
    *,
    weight_type: Annotated[
        str, typer.Option("--type", "-t", metavar="TYPE", help="Type of the weights: q2_k to q8_0, or f16.")
    ] = "q4_k_m",
    name: Annotated[str | None, typer.Option("--name", "-n", help="Name of the new model.  [MODEL-TYPE]")] = None,
    backend: Annotated[str, typer.Option("--backend", help="The backend that quantises.")] = "",
    base: Annotated[
        str, typer.Option("--base", metavar="MODEL", help="If MODEL is a LoRA adapter: the model that it changes.")
    ] = "",
    imatrix: Annotated[
        str, typer.Option("--imatrix", metavar="PATH", help="An importance matrix among the files of MODEL.")
    ] = "",
    no_register: Annotated[bool, typer.Option("--no-register", help="Keep the file, and make no model of it.")] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not wait for the end.")] = False,
) -> None:
    """Quantise a model, and register the result as another one. `start` can be left out."""
    body = {
        "model": model,
        "quantization_type": weight_type,
        "name": "" if no_register else name or f"{model}-{weight_type.lower()}",
        "backend": backend,
        **({"base": base} if base else {}),
        **({"imatrix": imatrix} if imatrix else {}),
    }
    started = await session.client.quantizations.start(body)
    if detach:
        if session.as_json:
            render.print_json(started.model_dump(mode="json"))
        else:
            render.print_data(started.id)
            render.print_notice(f"Started. Look at it: corral quantize show {started.id}")
        return
    ended = await _follow(session, started)
    if session.as_json:
        render.print_json(ended.model_dump(mode="json"))
    else:
        _print_end(ended)
    if ended.status not in _GOOD_STATUSES:
        raise typer.Exit(1)


@register_command(app, "plan")
async def plan_quantization(session: CommandSession, model: ModelArgument) -> None:
    """Show how large a model would be with each type, and where it would fit."""
    plan = await session.client.quantizations.plan(model)
    if session.as_json:
        render.print_json(plan.model_dump(mode="json"))
        return
    now = f"{plan.quantization_type or 'unknown'}, {render.format_size(plan.size_bytes)}"
    render.print_data(render.format_facts({"Model": plan.model, "Now": now}))
    rows = [
        [one.quantization_type, render.format_size(one.size_bytes), ", ".join(one.fits_on) or render.NONE]
        for one in plan.types
    ]
    render.print_data(render.format_table(("TYPE", "SIZE", "FITS ON"), rows, colour=render.has_colour(sys.stdout)))
    if plan.is_requantized:
        render.print_notice("Its weights are quantised already; quantising them again costs precision twice.")


@register_command(app, "list")
async def list_quantizations(
    session: CommandSession,
    *,
    limit: Annotated[int, typer.Option(min=1, max=_LISTED_MAX, help="How many to list at most.")] = 50,
    all_users: Annotated[bool, typer.Option("--all-users", help="For admins: those of all users.")] = False,
) -> None:
    """List your quantisations, newest first."""
    found = (await session.client.quantizations.list(limit=limit, all_users=all_users)).jobs
    if session.as_json:
        render.print_json([job.model_dump(mode="json") for job in found])
    elif found:
        render.print_data(_format_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("You have no quantisations. Start one: corral quantize MODEL --type q4_k_m")


@register_command(app, "show")
async def show_quantization(session: CommandSession, job: JobArgument) -> None:
    """Show one quantisation."""
    found = await session.client.quantizations.get(await _find_id(session, job))
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
    else:
        render.print_data(_format_job(found))


@register_command(app, "cancel")
async def cancel_quantization(session: CommandSession, job: JobArgument) -> None:
    """Cancel a quantisation. Its program is killed, and what it has written is deleted."""
    stopped = await session.client.quantizations.stop(await _find_id(session, job))
    if session.as_json:
        render.print_json(stopped.model_dump(mode="json"))
    else:
        render.print_notice(f"Cancelled the quantisation of {stopped.model}.")


@register_command(app, "register")
async def register_quantization(
    session: CommandSession,
    job: JobArgument,
    *,
    name: Annotated[str, typer.Option("--name", "-n", help="Name of the model.  [MODEL-TYPE]")] = "",
) -> None:
    """Register the result of a quantisation as a model, if that was not done at its end."""
    made = await session.client.quantizations.register(await _find_id(session, job), name)
    if session.as_json:
        render.print_json(made.model_dump(mode="json"))
    else:
        render.print_notice(made.message)


@register_command(app, "download")
async def download_quantization(
    session: CommandSession,
    job: JobArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, which must not exist.")],
) -> None:
    """Download the file that a quantisation has made."""
    job_id = await _find_id(session, job)
    with open_new_file(file) as target:
        size_bytes = await session.client.quantizations.download(job_id, target)
    if session.as_json:
        render.print_json({"path": str(file), "size_bytes": size_bytes})
    else:
        render.print_notice(f"Wrote {render.format_size(size_bytes)} to {file}.")


@register_command(app, "delete")
async def delete_quantization(session: CommandSession, job: JobArgument) -> None:
    """Delete a quantisation that has ended, with its file. A model that was registered stays."""
    await session.client.quantizations.delete(await _find_id(session, job))
    if not session.as_json:
        render.print_notice("Deleted the quantisation. A model that it has become stays.")


async def _find_id(session: CommandSession, text: str) -> str:
    """Return the full id for a short one, among the newest quantisations."""
    from corral.cli.operation_views import resolve_id

    if len(text) >= _FULL_ID_LENGTH:
        return text
    listed = await session.client.quantizations.list(limit=_LISTED_MAX)
    return resolve_id([job.id for job in listed.jobs], text)


async def _follow(session: CommandSession, job: QuantizationOut) -> QuantizationOut:
    """Print how far a quantisation is until it has ended, and return it."""
    import asyncio

    last_phase, last_percent = "", -_PERCENT_STEP
    try:
        async with aclosing(session.client.quantizations.follow(job.id)) as events:
            async for event in events:
                phase, percent = event.data.get("phase"), event.data.get("percent")
                if event.type != "status" or not isinstance(phase, str) or not isinstance(percent, int | float):
                    continue
                if session.as_json or (phase == last_phase and percent < last_percent + _PERCENT_STEP):
                    continue
                last_phase, last_percent = phase, float(percent)
                render.print_notice(render.clean_text(f"{phase.capitalize()}: {percent:.0f} %"))
    except asyncio.CancelledError:
        render.print_notice(f"The quantisation goes on. Look at it: corral quantize show {job.id}")
        raise typer.Exit(_INTERRUPTED) from None
    return await session.client.quantizations.get(job.id)


def _print_end(job: QuantizationOut) -> None:
    if job.status not in _GOOD_STATUSES:
        render.print_notice(render.clean_text(f"The quantisation of {job.model} {job.status}: {job.message}"))
        return
    render.print_data(job.import_model_name or job.id)
    size = render.format_size(job.size_bytes)
    if job.provenance is not None and job.provenance.is_requantized:
        render.print_notice("The weights had been quantised before, so they lost precision twice.")
    if job.import_model_name:
        render.print_notice(f"Made {job.import_model_name}, {size}. Ask it: corral run {job.import_model_name} …")
    elif job.import_message:
        render.print_notice(render.clean_text(f"Made {job.output_file}, {size}, and no model: {job.import_message}"))
        render.print_notice(f"Register it under another name: corral quantize register {job.id} --name NAME")
    else:
        render.print_notice(f"Made {job.output_file}, {size}. Download it: corral quantize download {job.id} FILE")


def _format_list(found: Sequence[QuantizationOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            job.id,
            job.model,
            job.quantization_type,
            job.status,
            f"{job.progress_percent:.0f} %",
            job.import_model_name or render.NONE,
            render.format_age(job.created_at, now),
        ]
        for job in found
    ]
    return render.format_table(("ID", "MODEL", "TYPE", "STATUS", "DONE", "BECAME", "AGE"), rows, colour=colour)


def _format_job(job: QuantizationOut) -> str:
    made = job.provenance
    facts = {
        "Quantisation": job.id,
        "Model": job.model,
        "Type": job.quantization_type,
        "Status": f"{job.status}, {job.progress_percent:.0f} %",
        "Message": job.message,
        "Node": job.node_name,
        "File": f"{job.output_file}, {render.format_size(job.size_bytes)}" if job.output_file else "",
        "Became": job.import_model_name or (f"no model: {job.import_message}" if job.import_message else ""),
        "Weights before": ", ".join(made.source_types) + (", requantised" if made.is_requantized else "")
        if made is not None
        else "",
        "Tool": made.tool if made is not None else "",
        "Run": job.run_id,
    }
    return render.format_facts({name: render.clean_text(value) for name, value in facts.items() if value})
