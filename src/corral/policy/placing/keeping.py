"""Which replicas have to stay for their model's sake: pins, minimums and one on every node.

What makes up a minimum is what serves: loaded, current, on a healthy node that the rule's selector allows. A replica
that does not serve may go without being counted.
"""

from __future__ import annotations

import math
from datetime import datetime

from corral.domain.replica import Replica, ReplicaState, Rule
from corral.policy.placing.fleet import Fleet
from corral.policy.placing.windows import effective


class Keeping:
    """Looks at each model once. Lives for one decision."""

    def __init__(self, fleet: Fleet, now: datetime) -> None:
        self._fleet = fleet
        self.now = now
        self._spare: dict[str, float] = {}

    def may_go(self, replica: Replica) -> bool:
        """Whether it may go alone. For several at once, `spare` says how many of those that are counted."""
        spare = self.spare(replica.model)
        if spare >= 1:
            rule = self._fleet.rules.get(replica.model)
            return rule is None or not rule.spreads or self._is_doubled(replica, rule)
        model = self._fleet.models.get(replica.model)
        return (model is None or not model.is_pinned) and not self.is_counted(replica)

    def spare(self, model: str) -> float:
        """How many of the replicas that count may go."""
        found = self._spare.get(model)
        if found is None:
            found = self._spare[model] = self._count(model)
        return found

    def is_counted(self, replica: Replica) -> bool:
        rule = self._fleet.rules.get(replica.model)
        return rule is not None and self._serves(replica, rule)

    def _count(self, model: str) -> float:
        view = self._fleet.models.get(model)
        if view is not None and view.is_pinned:
            return 0
        rule = self._fleet.rules.get(model)
        if rule is None or rule.spreads:
            return math.inf
        least = effective(rule, self.now).min_replicas
        if not least:
            return math.inf
        return sum(self._serves(row, rule) for row in self._fleet.by_model.get(model, ())) - least

    def _is_doubled(self, replica: Replica, rule: Rule) -> bool:
        """Of several on one node the first stays; one that is not meant to be there may go."""
        if not self._serves(replica, rule):
            return True
        return any(
            row.model == replica.model and row.index < replica.index and self._serves(row, rule)
            for row in self._fleet.by_node.get(replica.node_id, ())
        )

    def _serves(self, replica: Replica, rule: Rule) -> bool:
        return (
            replica.state is ReplicaState.LOADED
            and self._fleet.is_current(replica)
            and replica.node_id in self._fleet.matching(rule.selector).ids
        )
