"""`corral tasks …`: commands for tasks, templates of prompts that are executed on request or by a cron pattern."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, parse_pairs, register_command
from corral.cli.completion import complete_model_names, complete_task_names
from corral.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from corral.wire.tasks import TaskOut

app = make_group("Tasks, templates of prompts: create them, and run them by hand or by a cron pattern.")
TaskArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="Name or id of the task.", autocompletion=complete_task_names)
]
ModelOption = Annotated[
    str | None, typer.Option("--model", "-m", help="The model that answers.", autocompletion=complete_model_names)
]
PromptOption = Annotated[
    str | None, typer.Option("--prompt", "-p", help="The template; {{ name }} is a parameter. @FILE reads a file.")
]
DescriptionOption = Annotated[str | None, typer.Option("--description", help="What the task is for.")]
CronOption = Annotated[
    str | None,
    typer.Option("--cron", metavar="PATTERN", help="When it runs by itself: '0 9 * * 1-5', @daily; '' never."),
]
ZoneOption = Annotated[str | None, typer.Option("--time-zone", metavar="ZONE", help="Zone of the pattern.  [UTC]")]
CronParameterOption = Annotated[
    list[str] | None,
    typer.Option("--cron-param", metavar="NAME=VALUE", help="A parameter of runs by cron; repeatable."),
]
OverlapOption = Annotated[
    str | None, typer.Option("--overlap", help="While an earlier run by cron is open: skip, queue or replace.")
]
CatchUpOption = Annotated[
    str | None, typer.Option("--catch-up", help="Times that passed while no frontend ran: none or once.")
]
WebhookOption = Annotated[
    list[str] | None, typer.Option("--webhook", metavar="URL", help="Notified when a job has ended; repeatable.")
]
LabelOption = Annotated[
    list[str] | None, typer.Option("--label", "-l", metavar="KEY=VALUE", help="A label that the node must have.")
]
FileOption = Annotated[
    str, typer.Option("--file", "-f", metavar="FILE", help="YAML or JSON with all fields; - is standard input.")
]
ATTACHMENT_BYTES_MAX = 20 * 1024 * 1024


@register_command(app, "list")
async def list_tasks(
    session: CommandSession,
    *,
    all_users: Annotated[bool, typer.Option("--all-users", help="For admins: the tasks of all users.")] = False,
) -> None:
    """List your tasks."""
    found = await session.client.tasks.list(all_users=all_users)
    if session.as_json:
        render.print_json([task.model_dump(mode="json") for task in found])
    elif found:
        render.print_data(_format_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("You have no tasks. Create one: corral tasks create NAME --model MODEL --prompt TEXT")


@register_command(app, "show")
async def show_task(session: CommandSession, task: TaskArgument) -> None:
    """Show one task."""
    await _print_task(session, await session.client.tasks.get(task))


@register_command(app, "create")
async def create_task(
    session: CommandSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the task.")],
    *,
    model: ModelOption = None,
    prompt: PromptOption = None,
    description: DescriptionOption = None,
    cron: CronOption = None,
    time_zone: ZoneOption = None,
    cron_param: CronParameterOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    webhook: WebhookOption = None,
    label: LabelOption = None,
    file: FileOption = "",
    disabled: Annotated[
        bool, typer.Option("--disabled", help="Create it disabled; `corral tasks enable` enables it.")
    ] = False,
) -> None:
    """Create a task. With a pattern it runs first at the next time of the pattern, not now."""
    given: dict[str, Any] = {
        "model": model,
        "prompt": prompt,
        "description": description,
        "cron": cron,
        "time_zone": time_zone,
    }
    given |= {"cron_parameters": cron_param, "overlap": overlap, "catch_up": catch_up}
    body = _read_body(file) | {"name": name} | _collect({**given, "webhooks": webhook, "labels": label})
    body |= {"enabled": False} if disabled else {}
    created = await session.client.tasks.create(body)
    if session.as_json:
        render.print_json((await session.client.tasks.get(created.id)).model_dump(mode="json"))
        return
    following = ""
    if body.get("cron") and body.get("enabled", True):
        times = await _list_next_times(session, await session.client.tasks.get(created.id))
        following = f" Next: {times[0]}." if times else ""
    render.print_notice(render.clean_text(f"Created task {name}.{following} Run it now: corral tasks run {name}"))
    render.print_warnings(created.warnings)


@register_command(app, "edit")
async def edit_task(
    session: CommandSession,
    task: TaskArgument,
    *,
    name: Annotated[str | None, typer.Option("--name", help="A new name.")] = None,
    model: ModelOption = None,
    prompt: PromptOption = None,
    description: DescriptionOption = None,
    cron: CronOption = None,
    time_zone: ZoneOption = None,
    cron_param: CronParameterOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    webhook: WebhookOption = None,
    label: LabelOption = None,
    file: FileOption = "",
) -> None:
    """Change a task. What is not named stays as it is; lists such as webhooks are replaced."""
    given: dict[str, Any] = {"name": name, "model": model, "prompt": prompt, "description": description, "cron": cron}
    given |= {"time_zone": time_zone, "cron_parameters": cron_param, "overlap": overlap, "catch_up": catch_up}
    change = _read_body(file) | _collect({**given, "webhooks": webhook, "labels": label})
    if not change:
        raise InvalidRequest("No option says what to change.", hint="Options: corral tasks edit --help")
    current = await session.client.tasks.get(task)
    # What the server has left out is left out here: an empty list of MCP servers would be a choice.
    body = current.model_dump(mode="json", exclude_unset=True) | change
    await _print_task(session, await session.client.tasks.edit(current.id, body, revision=current.revision))


@register_command(app, "enable")
async def enable_task(session: CommandSession, task: TaskArgument) -> None:
    """Enable a task."""
    await _print_task(session, await session.client.tasks.set_enabled(task, is_enabled=True))


@register_command(app, "disable")
async def disable_task(session: CommandSession, task: TaskArgument) -> None:
    """Disable a task: it runs neither by cron nor on request. Jobs that have begun go on."""
    await _print_task(session, await session.client.tasks.set_enabled(task, is_enabled=False))


@register_command(app, "delete")
async def delete_task(session: CommandSession, task: TaskArgument) -> None:
    """Delete a task. Its jobs go on, and stay readable."""
    await session.client.tasks.delete(task)
    if not session.as_json:
        render.print_notice(render.clean_text(f"Deleted task {task}."))


@register_command(app, "webhook-secret")
async def show_webhook_secret(session: CommandSession, task: TaskArgument) -> None:
    """Print the secret that a task's webhooks are signed with."""
    secret = await session.client.tasks.show_webhook_secret(task)
    if session.as_json:
        render.print_json({"secret": secret})
    else:
        render.print_data(secret)


AttachmentOption = Annotated[list[str] | None, typer.Option(metavar="FILE|URL", help="An attachment; repeatable.")]


@register_command(app, "run")
async def run_task(
    session: CommandSession,
    task: TaskArgument,
    *,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-P", metavar="NAME=VALUE", help="A parameter; repeatable.")
    ] = None,
    image: AttachmentOption = None,
    video: AttachmentOption = None,
    audio: AttachmentOption = None,
    attach: AttachmentOption = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Print the id of the job instead of waiting for its result.")
    ] = False,
) -> None:
    """Run a task and print its result."""
    from corral.cli.jobs import finish_job
    from corral.wire.tasks import JobIn

    body = JobIn(
        task_id=task,
        parameters=parse_pairs(param or (), "--param"),
        images=[_read_attachment(one, "image/png") for one in image or ()],
        videos=[_read_attachment(one, "video/mp4") for one in video or ()],
        audios=[_read_attachment(one, "audio/wav") for one in audio or ()],
        files=[_read_attachment(one, "application/octet-stream") for one in attach or ()],
        triggered_by="manual",
    )
    made = await session.client.tasks.execute(body)
    if detach:
        render.print_data(made.job_id)
        return
    await finish_job(session, made.job_id)


def _collect(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a task that the options name, as the API takes them."""
    from corral.cli.fleet import read_value

    fields = {name: value for name, value in given.items() if value is not None}
    if "prompt" in fields:
        fields["prompt"] = read_value(fields["prompt"])
    for name, option in (("cron_parameters", "--cron-param"), ("labels", "--label")):
        if name in fields:
            fields[name] = parse_pairs(fields[name], option)
    if "webhooks" in fields:
        fields["webhooks"] = [{"url": url} for url in fields["webhooks"]]
    return fields


def _read_body(file: str) -> dict[str, Any]:
    from corral.cli.fleet import read_body

    return read_body(file, "task", "For several tasks: corral apply -f FILE")


def _read_attachment(text: str, default_type: str) -> str:
    """Return an address as it is, and a file of this machine as a data URI."""
    import base64
    import mimetypes

    if text.startswith(("http://", "https://", "data:")):
        return text
    try:
        content = Path(text).expanduser().read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{text} cannot be read: {error.strerror}.") from error
    if len(content) > ATTACHMENT_BYTES_MAX:
        raise InvalidRequest(f"{text} is larger than {render.format_size(ATTACHMENT_BYTES_MAX)}.")
    kind = mimetypes.guess_type(text)[0] or default_type
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


async def _print_task(session: CommandSession, task: TaskOut) -> None:
    if session.as_json:
        render.print_json(task.model_dump(mode="json"))
    else:
        render.print_data(_format_task(task, await _list_next_times(session, task)))
        render.print_warnings(task.warnings)


async def _list_next_times(session: CommandSession, task: TaskOut) -> list[str]:
    """Return when a task runs by itself next, on the clock of its time zone; nothing if it does not."""
    if not task.cron or not task.enabled:
        return []
    now = session.read_time()
    starts = (await session.client.tasks.preview_schedule(task.cron, task.time_zone)).next_runs
    return [f"{start:%a %Y-%m-%d %H:%M %Z} ({render.format_until(start, now)})" for start in starts]


def _format_list(found: Sequence[TaskOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            task.name,
            task.model,
            "enabled" if task.enabled else "disabled",
            task.cron or render.NONE,
            render.format_until(task.next_run_at, now) if task.next_run_at else render.NONE,
            task.description or render.clean_text(task.prompt)[:60],
        ]
        for task in found
    ]
    return render.format_table(("NAME", "MODEL", "STATE", "CRON", "NEXT", "DESCRIPTION"), rows, colour=colour)


def _format_task(task: TaskOut, next_times: Sequence[str]) -> str:
    facts = {
        "Task": task.name,
        "Id": task.id,
        "Description": task.description,
        "Model": task.model,
        "State": "enabled" if task.enabled else "disabled",
        "Parameters": ", ".join(task.parameters),
        "Schedule": f"{task.cron_words or task.cron}, {task.time_zone}" if task.cron else "",
        "Cron": task.cron,
        "Next": ", ".join(next_times) or ("not while it is disabled" if task.cron else ""),
        "Last time": task.cron_note or render.format_time(task.last_run_at),
        "Overlap": f"{task.overlap}; missed times: {task.catch_up}",
        "Webhooks": ", ".join(webhook.url.partition("?")[0] for webhook in task.webhooks),
        "Tools": ", ".join([*(server.name for server in task.mcp_servers), *task.mcp_stdio_servers]),
        "Labels": render.format_pairs(task.labels),
    }
    return f"{render.format_facts(facts)}\n{render.clean_text(task.prompt, keep=chr(10))}\n"
