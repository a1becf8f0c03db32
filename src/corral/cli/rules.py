"""`corral rules …`: where a model may run, and how many replicas it is to have."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import Session, a_group, client_command
from corral.cli.complete import model_names, rule_names

app = a_group("Rules: where a model may run, and how many replicas it is to have.")

Ruled = Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.", autocompletion=rule_names)]


@client_command(app, "list")
async def list_rules(session: Session) -> None:
    """List the rules."""
    from corral.cli.model_views import rule_list

    rules = await session.client.rules.list()
    if session.as_json:
        render.write_json([rule.model_dump(mode="json") for rule in rules])
    elif rules:
        render.write(rule_list(rules, session.now(), colour=render.has_colour(sys.stdout)))
    else:
        render.say("No rule is set: every model runs anywhere, when it is asked for. See: corral rules set --help")


@client_command(app, "show")
async def show_rule(session: Session, model: Ruled) -> None:
    """Show one rule."""
    from corral.cli.model_views import rule_in_full

    rule = await session.client.rules.get(model)
    if session.as_json:
        render.write_json(rule.model_dump(mode="json"))
    else:
        render.write(rule_in_full(rule, session.now(), colour=render.has_colour(sys.stdout)))


@client_command(app, "set")
async def set_rule(
    session: Session,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.", autocompletion=model_names)],
    *,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="KEY=VALUE,…", help="Only nodes with these labels.")
    ] = "",
    least: Annotated[int, typer.Option("--min", min=0, max=10_000, help="At least so many replicas.")] = 0,
    most: Annotated[int, typer.Option("--max", min=0, max=10_000, help="At most so many.  [no limit]")] = 0,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="One replica on every node that matches; instead of --min and --max.")
    ] = False,
    window: Annotated[
        list[str] | None,
        typer.Option(
            "--window",
            metavar="'CRON' DURATION MIN",
            help="More at times, such as '0 8 * * 1-5 10h 2'; may be given several times.",
        ),
    ] = None,
    time_zone: Annotated[str, typer.Option("--time-zone", metavar="ZONE", help="Of the windows.  [UTC]")] = "",
) -> None:
    """Set the rule of a model, in place of the one that it had. It may come before its model."""
    from corral.cli.model_views import rule_in_full

    rule: dict[str, Any] = {"selector": selector, "min_replicas": least, "max_replicas": most}
    rule |= {"replicas": "all"} if everywhere else {}
    rule |= {"time_zone": time_zone} if time_zone else {}
    if window:
        rule["windows"] = [_window(text) for text in window]
    saved = await session.client.rules.put(model, rule)
    if session.as_json:
        render.write_json(saved.model_dump(mode="json"))
        return
    render.write(rule_in_full(saved, session.now(), colour=render.has_colour(sys.stdout)))
    if not saved.model_exists:
        render.say(render.clean(f"There is no model {model} yet; the rule waits for it."))


def _window(text: str) -> dict[str, Any]:
    """Five fields of cron, a duration, a minimum, and perhaps a maximum."""
    words = text.split()
    if len(words) not in (7, 8) or not all(word.isdecimal() for word in words[6:]):
        raise typer.BadParameter(f"--window {text!r} is not like '0 8 * * 1-5 10h 2'")
    window: dict[str, Any] = {"cron": " ".join(words[:5]), "duration": words[5], "min_replicas": int(words[6])}
    return window | ({"max_replicas": int(words[7])} if len(words) == 8 else {})


@client_command(app, "remove")
async def remove_rule(session: Session, model: Ruled) -> None:
    """Take a rule away. What runs stays until it is idle."""
    rule = await session.client.rules.remove(model)
    if session.as_json:
        render.write_json(rule.model_dump(mode="json"))
    else:
        render.say(render.clean(f"{rule.model} has no rule any more: it runs anywhere, when it is asked for."))
