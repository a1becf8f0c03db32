"""`corral jobs …`: commands for jobs, the executions of tasks. An id can be shortened to its beginning or end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.completion import complete_job_ids, complete_task_names
from corral.domain.state_words import say_run_state

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from corral.wire.tasks import JobOut

app = make_group("Jobs, the executions of tasks: list, watch, cancel and delete them.")
JobArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the job, or its beginning or end.", autocompletion=complete_job_ids)
]
AllUsersOption = Annotated[bool, typer.Option("--all-users", help="For admins: the jobs of all users.")]
# What is printed of a trace while a command waits for the result, which it prints by itself.
SHOWN_WHILE_WAITING = frozenset({"status", "tool_call", "tool_result", "approval_requested", "retried"})


async def find_job_id(session: CommandSession, text: str, *, all_users: bool = False) -> str:
    """Return the full id for a short one, among the newest jobs."""
    from corral.cli.operation_views import FULL_ID_LENGTH, resolve_id

    if len(text) >= FULL_ID_LENGTH:
        return text
    return resolve_id([job.id for job in await session.client.jobs.list(limit=200, all_users=all_users)], text)


@register_command(app, "list")
async def list_jobs(
    session: CommandSession,
    *,
    task: Annotated[
        str, typer.Option(help="Only jobs of this task, by name or id.", autocompletion=complete_task_names)
    ] = "",
    status: Annotated[
        str, typer.Option(help="Only this status: pending (queued), running, completed, failed or cancelled.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many to list at most.")] = 20,
    all_users: AllUsersOption = False,
) -> None:
    """List your jobs, newest first."""
    found = await session.client.jobs.list(task=task, status=status, limit=limit, all_users=all_users)
    if session.as_json:
        render.print_json([job.model_dump(mode="json") for job in found])
    elif found:
        render.print_data(_format_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("No jobs match. Start one: corral tasks run TASK")


@register_command(app, "show")
async def show_job(session: CommandSession, job: JobArgument, *, all_users: AllUsersOption = False) -> None:
    """Show a job with its trace, its result and its webhooks."""
    found = await session.client.jobs.get(await find_job_id(session, job, all_users=all_users), all_users=all_users)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
        return
    from corral.cli.runs import format_event, join_texts
    from corral.wire.runs import RunEventOut

    render.print_data(_format_job(found, session.read_time()))
    events = [
        RunEventOut(seq=trace.seq, at=trace.time, type=trace.type, tool=trace.tool, data=trace.data)
        for trace in found.traces
    ]
    for line in map(format_event, join_texts(events)):
        if line:
            render.print_data(line)
    if found.has_more_traces:
        render.print_notice(f"The trace has more entries: corral jobs watch {found.id}")


@register_command(app, "watch")
async def watch_job(session: CommandSession, job: JobArgument, *, all_users: AllUsersOption = False) -> None:
    """Follow the trace of a job to its end."""
    from corral.cli.runs import print_events

    job_id = await find_job_id(session, job, all_users=all_users)
    await print_events(session, session.client.jobs.follow(job_id, all_users=all_users))


@register_command(app, "cancel")
async def cancel_job(session: CommandSession, job: JobArgument, *, all_users: AllUsersOption = False) -> None:
    """Cancel a job. One that is pending does not start; one that runs is stopped within seconds."""
    job_id = await find_job_id(session, job, all_users=all_users)
    cancelled = await session.client.jobs.cancel(job_id, all_users=all_users)
    if session.as_json:
        render.print_json(cancelled.model_dump(mode="json"))
    else:
        render.print_notice(render.clean_text(f"Cancelled the job of {cancelled.task}."))


@register_command(app, "delete")
async def delete_job(session: CommandSession, job: JobArgument) -> None:
    """Delete a job that has ended, with its trace."""
    job_id = await find_job_id(session, job)
    await session.client.jobs.delete(job_id)
    if not session.as_json:
        render.print_notice(f"Deleted job {job_id}.")


async def finish_job(session: CommandSession, job_id: str) -> None:
    """Follow a job to its end and print its result: tools and errors as messages, the result as data. Exits with 1
    unless the job has completed."""
    from corral.cli.runs import format_event

    async for event in session.client.jobs.follow(job_id):
        if not session.as_json and event.type in SHOWN_WHILE_WAITING:
            render.print_notice(format_event(event))
    found = await session.client.jobs.get(job_id)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
    elif found.result:
        render.print_data(render.clean_text(found.result, keep="\n\t"))
    if found.status != "completed":
        if not session.as_json:
            reason = found.error or found.message
            render.show_refusal(f"{say_run_state('The job', found.status)}. {reason}", f"corral jobs show {job_id}")
        raise typer.Exit(1)


def _format_list(found: Sequence[JobOut], now: datetime, *, colour: bool) -> str:
    from corral.cli.operation_views import shorten_id
    from corral.domain.state_words import TASK_RUN_WORDS, TRIGGER_WORDS, find_word

    rows = [
        [
            shorten_id(job.id),
            job.task,
            find_word(TASK_RUN_WORDS, job.status),
            find_word(TRIGGER_WORDS, job.triggered_by),
            job.node or render.NONE,
            render.format_age(job.created_at, now),
            job.error or job.result or job.message,
        ]
        for job in found
    ]
    cut = [[*row[:-1], render.clean_text(row[-1])[:80]] for row in rows]
    return render.format_table(("ID", "TASK", "STATUS", "BY", "NODE", "AGE", "RESULT"), cut, colour=colour)


def _format_job(job: JobOut, now: datetime) -> str:
    from corral.domain.state_words import TASK_RUN_WORDS, TRIGGER_WORDS, WEBHOOK_WORDS, find_word

    facts = {
        "Job": job.id,
        "Task": job.task,
        "Model": job.model,
        "Status": find_word(TASK_RUN_WORDS, job.status),
        "Message": job.message,
        "Error": job.error,
        "Parameters": ", ".join(f"{name}={value}" for name, value in job.parameters.items()),
        "Attachments": ", ".join(f"{one.name or one.kind} ({one.type})" for one in job.attachments),
        "Started by": f"{find_word(TRIGGER_WORDS, job.triggered_by)} ({job.owner_name})",
        "Node": job.node,
        "Attempts": str(job.attempt),
        "Created": f"{render.format_age(job.created_at, now)} ago",
    }
    for webhook in job.webhooks:
        detail = f": {webhook.last_error}" if webhook.last_error else ""
        word = find_word(WEBHOOK_WORDS, webhook.state)
        facts[f"Webhook {webhook.url}"] = f"{word}, {webhook.attempts} attempts{detail}"
    result = f"\n{render.clean_text(job.result, keep=chr(10))}\n" if job.result else ""
    return f"{render.format_facts(facts)}{result}"
