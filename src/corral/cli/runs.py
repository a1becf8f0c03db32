"""`corral runs …`: commands for runs. An id can be shortened to its beginning or end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.completion import complete_run_ids

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable, Sequence
    from datetime import datetime

    from corral.wire.runs import RunEventOut, RunOut

app = make_group("Runs of agents, tasks and batches: list, watch and cancel them, and approve their tool calls.")
RunArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the run, or its beginning or end.", autocompletion=complete_run_ids)
]
AllUsersOption = Annotated[bool, typer.Option("--all-users", help="For admins: the runs of all users.")]
_ARGUMENTS_MAX = 200
_LABELS = {"step": "model call", "approval_requested": "approval"}


async def find_run_id(session: CommandSession, text: str, *, all_users: bool) -> str:
    """Return the full id for a short one, among the newest runs."""
    from corral.cli.operation_views import FULL_ID_LENGTH, resolve_id

    if len(text) >= FULL_ID_LENGTH:
        return text
    listed = await session.client.runs.list(limit=200, all_users=all_users)
    return resolve_id([run.id for run in listed.runs], text)


@register_command(app, "list")
async def list_runs(
    session: CommandSession,
    *,
    state: Annotated[str, typer.Option(help="Only this state; `open` for all that have not ended.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many to list at most.")] = 20,
    all_users: AllUsersOption = False,
) -> None:
    """List your runs, newest first."""
    found = (await session.client.runs.list(state=state, limit=limit, all_users=all_users)).runs
    if session.as_json:
        render.print_json([run.model_dump(mode="json") for run in found])
    elif found:
        render.print_data(_format_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("No runs match. Start one: corral agents chat NAME, or corral tasks run NAME")


@register_command(app, "show")
async def show_run(session: CommandSession, run: RunArgument, *, all_users: AllUsersOption = False) -> None:
    """Show a run with its trace."""
    run_id = await find_run_id(session, run, all_users=all_users)
    found = await session.client.runs.get(run_id, all_users=all_users)
    trace = await session.client.runs.read_trace(run_id, all_users=all_users)
    if session.as_json:
        events = [event.model_dump(mode="json") for event in trace.events]
        render.print_json(found.model_dump(mode="json") | {"trace": events})
        return
    render.print_data(_format_run(found, session.read_time()))
    for line in map(format_event, join_texts(trace.events)):
        if line:
            render.print_data(line)
    if trace.has_more:
        render.print_notice(f"The trace has more entries: corral runs watch {found.id}")
    for approval in found.approvals:
        if approval.approved is None:
            render.print_notice(
                f"{approval.tool} waits for approval: corral runs approve {found.id} {approval.call_id}"
            )


@register_command(app, "watch")
async def watch_run(session: CommandSession, run: RunArgument, *, all_users: AllUsersOption = False) -> None:
    """Follow the trace of a run to its end."""
    run_id = await find_run_id(session, run, all_users=all_users)
    await print_events(session, session.client.runs.follow(run_id, all_users=all_users))


async def print_events(session: CommandSession, events: AsyncIterable[RunEventOut]) -> None:
    """Print the entries of a trace as they come."""
    async for event in events:
        if session.as_json:
            render.print_json(event.model_dump(mode="json"), one_line=True)
        elif line := format_event(event):
            render.print_data(line)


@register_command(app, "cancel")
async def cancel_run(session: CommandSession, run: RunArgument, *, all_users: AllUsersOption = False) -> None:
    """Cancel a run. Its worker stops it, and what its tools do, within seconds."""
    run_id = await find_run_id(session, run, all_users=all_users)
    cancelled = await session.client.runs.cancel(run_id, all_users=all_users)
    if session.as_json:
        render.print_json(cancelled.model_dump(mode="json"))
    else:
        render.print_notice(f"Cancelled the run of {cancelled.subject}.")


@register_command(app, "approve")
async def approve_call(
    session: CommandSession,
    run: RunArgument,
    call: Annotated[str, typer.Argument(metavar="CALL", help="Id of the tool call; `corral runs show` prints it.")],
    *,
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse the call instead.")] = False,
    reason: Annotated[str, typer.Option(help="Reason of the decision; the model gets that of a refusal.")] = "",
) -> None:
    """Approve a tool call that waits for you, or refuse it."""
    run_id = await find_run_id(session, run, all_users=False)
    decided = await session.client.runs.decide(run_id, call, approved=not refuse, reason=reason)
    if session.as_json:
        render.print_json(decided.model_dump(mode="json"))
    else:
        render.print_notice(f"{'Refused' if refuse else 'Approved'} the call. `corral runs watch {run_id}` follows it.")


def _format_list(found: Sequence[RunOut], now: datetime, *, colour: bool) -> str:
    from corral.cli.operation_views import shorten_id
    from corral.domain.state_words import RUN_KIND_WORDS, RUN_WORDS, find_word

    rows = [
        [
            shorten_id(run.id),
            find_word(RUN_KIND_WORDS, run.kind),
            run.subject,
            find_word(RUN_WORDS, run.state),
            run.node or render.NONE,
            render.format_age(run.created_at, now),
            run.message,
        ]
        for run in found
    ]
    return render.format_table(("ID", "KIND", "SUBJECT", "STATE", "NODE", "AGE", "MESSAGE"), rows, colour=colour)


def _format_run(run: RunOut, now: datetime) -> str:
    from corral.domain.state_words import RUN_KIND_WORDS, RUN_WORDS, TRIGGER_WORDS, find_word

    usage, content = run.usage, render.clean_text(run.content, keep="\n\t")
    facts = {
        "Run": run.id,
        "Kind": find_word(RUN_KIND_WORDS, run.kind),
        "Subject": run.subject,
        "State": find_word(RUN_WORDS, run.state),
        "Message": run.message,
        "Owner": run.owner_name,
        "Node": run.node or render.NONE,
        "Attempts": str(run.attempt),
        "Started by": find_word(TRIGGER_WORDS, run.trigger),
        "Created": f"{render.format_age(run.created_at, now)} ago",
        "Used": f"{usage.steps} model calls, {usage.tool_calls} tool calls, "
        f"{usage.prompt_tokens} + {usage.completion_tokens} tokens",
    }
    return render.format_facts(facts) + (f"\n\n{content}\n" if content else "\n")


def join_texts(events: Iterable[RunEventOut]) -> list[RunEventOut]:
    """Return the entries of a trace, with the streamed pieces of each text joined into one entry."""
    joined: list[RunEventOut] = []
    for event in events:
        last = joined[-1] if joined else None
        if last is not None and last.type == event.type and event.type in ("content", "reasoning"):
            text = f"{last.data.get('text', '')}{event.data.get('text', '')}"
            joined[-1] = last.model_copy(update={"data": {"text": text}})
        else:
            joined.append(event)
    return joined


def format_event(event: RunEventOut) -> str:
    """Return one line for an entry of a trace; empty for entries that people need not see."""
    text = _find_text(event)
    label = _LABELS.get(event.type, event.type.replace("_", " "))
    return f"{event.at:%H:%M:%S}  {label:<12}{render.clean_text(text)}" if text else ""


def _find_text(event: RunEventOut) -> str:
    data = event.data
    match event.type:
        case "content" | "reasoning":
            text = str(data.get("text", "")).strip()
        case "status":
            text = str(data.get("message") or data.get("note") or "").strip()
        case "step":
            text = str(data.get("step", ""))
        case "tool_call":
            text = f"{event.tool} {str(data.get('arguments', ''))[:_ARGUMENTS_MAX]}"
        case "approval_requested":
            arguments = str(data.get("arguments", ""))[:_ARGUMENTS_MAX]
            text = f"{event.tool} {arguments}  [{data.get('call_id', '')}]"
        case "tool_result":
            text = f"{event.tool} {str(data.get('content', ''))[:_ARGUMENTS_MAX]}"
        case "retried" | "end":
            text = str(data.get("text") or data.get("error_text") or data.get("state") or "")
        case _:
            text = ""
    return text
