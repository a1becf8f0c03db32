"""What stands in the table of MCP tools (`tool_table.py`) about one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from corral.domain.access import Scope


class ToolEffect(StrEnum):
    """Names the effect of an MCP tool: none, a change that another tool undoes, or one that ends something."""

    READ = "read"
    CHANGE = "change"
    DESTROY = "destroy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Describes one MCP tool: the API route that it calls, its effect and the scope that may call it."""

    name: str
    route: str
    effect: ToolEffect = ToolEffect.READ
    # Calling the tool again with the same arguments changes nothing more.
    is_idempotent: bool = False
    # The call may fetch from addresses outside the cluster.
    is_open_world: bool = False
    # The scope that the route requires.
    scope: Scope = Scope.OPERATE
    # What to call next, added to the description of the route.
    then: str = ""
    # Name of the argument that holds the body, for a body that is not spread over arguments.
    body: str = "body"
    # Parameters of the route that the tool does not offer.
    hidden: tuple[str, ...] = ()
    # Descriptions of arguments, where those of the route are missing or about HTTP.
    notes: Mapping[str, str] = field(default_factory=dict)
