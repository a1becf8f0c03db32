"""Rules as JSON: where a model may run and how many replicas it is to have."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from corral.wire.base import Lenient


class RuleOut(Lenient):
    """A rule. `model_name`, `node_selector` and `spread_all` are the ancestor's names for the same."""

    model: str
    model_name: str
    selector: dict[str, str]
    node_selector: dict[str, str]
    min_replicas: int
    max_replicas: int = Field(description="0: no limit.")
    spread_all: bool = Field(description="One replica on every node that matches.")
    windows: list[dict[str, Any]] = Field(default_factory=list)
    time_zone: str = "UTC"
    route_policy: str = ""
    warnings: list[str] = Field(default_factory=list, description="What of the rule is stored and has no effect yet.")
    unsatisfiable_until: datetime | None = Field(default=None, description="Not tried again before; read only.")
    unsatisfiable_ticks: int = 0
    model_exists: bool = Field(default=True, description="False: there is no model of this name yet.")
