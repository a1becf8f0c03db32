"""`corral rules …`: commands for rules, which say where a model may run and how many replicas it has."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.completion import complete_model_names, complete_rule_names

app = make_group("Rules: where a model may run, and how many replicas it has.")

RuleArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name of the model.", autocompletion=complete_rule_names)
]


class RoutingChoice(StrEnum):
    """Names the ways to choose the replica for a request, as people write them in `corral rules set`."""

    LEAST_WAIT = "least_wait"
    ROUND_ROBIN = "round_robin"
    PREFIX_CACHE = "prefix_cache"


@register_command(app, "list")
async def list_rules(session: CommandSession) -> None:
    """List the rules."""
    from corral.cli.model_views import format_rule_list

    rules = await session.client.rules.list()
    if session.as_json:
        render.print_json([rule.model_dump(mode="json") for rule in rules])
    elif rules:
        render.print_data(format_rule_list(rules, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice(
            "There are no rules: every model runs on any node and is loaded on demand. See: corral rules set --help"
        )


@register_command(app, "show")
async def show_rule(session: CommandSession, model: RuleArgument) -> None:
    """Show one rule."""
    from corral.cli.model_views import format_rule

    rule = await session.client.rules.get(model)
    if session.as_json:
        render.print_json(rule.model_dump(mode="json"))
    else:
        render.print_data(format_rule(rule, session.read_time(), colour=render.has_colour(sys.stdout)))


@register_command(app, "set")
async def set_rule(
    session: CommandSession,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Name of the model.", autocompletion=complete_model_names)
    ],
    *,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="KEY=VALUE,…", help="Only nodes with these labels.")
    ] = "",
    least: Annotated[int, typer.Option("--min", min=0, max=10_000, help="Minimum number of replicas.")] = 0,
    most: Annotated[int, typer.Option("--max", min=0, max=10_000, help="Maximum number of replicas.  [no limit]")] = 0,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="One replica on every matching node; replaces --min and --max.")
    ] = False,
    window: Annotated[
        list[str] | None,
        typer.Option(
            "--window",
            metavar="'CRON' DURATION MIN",
            help="A minimum for a time window, such as '0 8 * * 1-5 10h 2'; can be given several times.",
        ),
    ] = None,
    time_zone: Annotated[
        str, typer.Option("--time-zone", metavar="ZONE", help="Time zone of the windows.  [UTC]")
    ] = "",
    routing: Annotated[
        RoutingChoice | None,
        typer.Option(
            "--routing",
            help="How requests are given to replicas; prefix_cache has no effect yet.  [as it is, or least_wait]",
        ),
    ] = None,
) -> None:
    """Set the rule of a model and replace its previous rule. The model need not exist yet."""
    from corral.cli.model_views import format_rule

    rule: dict[str, Any] = {"selector": selector, "min_replicas": least, "max_replicas": most}
    rule |= {"replicas": "all"} if everywhere else {}
    rule |= {"time_zone": time_zone} if time_zone else {}
    if routing is not None:
        # The API has no name for the usual way.
        rule["route_policy"] = "" if routing is RoutingChoice.LEAST_WAIT else str(routing)
    if window:
        rule["windows"] = [_parse_window(text) for text in window]
    saved = await session.client.rules.put(model, rule)
    if session.as_json:
        render.print_json(saved.model_dump(mode="json"))
        return
    render.print_data(format_rule(saved, session.read_time(), colour=render.has_colour(sys.stdout)))
    if not saved.model_exists:
        render.print_notice(
            render.clean_text(f"There is no model {model} yet; the rule applies as soon as there is one.")
        )


def _parse_window(text: str) -> dict[str, Any]:
    """Parse a window: five cron fields, a duration, a minimum and optionally a maximum."""
    words = text.split()
    if len(words) not in (7, 8) or not all(word.isdecimal() for word in words[6:]):
        raise typer.BadParameter(f"--window {text!r} is not like '0 8 * * 1-5 10h 2'")
    window: dict[str, Any] = {"cron": " ".join(words[:5]), "duration": words[5], "min_replicas": int(words[6])}
    return window | ({"max_replicas": int(words[7])} if len(words) == 8 else {})


@register_command(app, "remove")
async def remove_rule(session: CommandSession, model: RuleArgument) -> None:
    """Remove the rule of a model. Its replicas stay until they are idle."""
    rule = await session.client.rules.remove(model)
    if session.as_json:
        render.print_json(rule.model_dump(mode="json"))
    else:
        render.print_notice(
            render.clean_text(f"{rule.model} has no rule any more: it runs on any node and is loaded on demand.")
        )
