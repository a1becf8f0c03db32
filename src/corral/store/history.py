"""Stores curves of the last hour as rows, one a minute, so that they survive a restart of every frontend.

Guarantee: at most one row for each minute, whichever frontend writes, and none that is older than the retention. A
row holds the numbers of the whole cluster by name, and those of each node as a list in the order of `names`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import text

from corral.store.database import Transaction

# A little less than the minute between two passes, which vary, so that the leader's own next row is never refused.
_APART_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMoment:
    """Measurements of the cluster and its nodes at one moment, as stored for the curves of the last hour.

    None: the value was not known.
    """

    at: float
    cluster: Mapping[str, float | None]
    names: Sequence[str] = ()
    nodes: Mapping[str, Sequence[float | None]] = field(default_factory=dict)

    def get_node_values(self, node_id: str) -> dict[str, float | None]:
        """Return the values of one node by name; none if the node was not there."""
        return dict(zip(self.names, self.nodes.get(node_id, ()), strict=False))


_ADD = text("""
    INSERT INTO history_moments (cluster, names, nodes)
    SELECT CAST(:cluster AS jsonb), CAST(:names AS jsonb), CAST(:nodes AS jsonb)
     WHERE NOT EXISTS (SELECT 1 FROM history_moments
                        WHERE at > corral_now() - make_interval(secs => :apart_s) AND at <= corral_now())
    ON CONFLICT (at) DO NOTHING
""")
_PRUNE = text("DELETE FROM history_moments WHERE at < corral_now() - make_interval(secs => :kept_s)")
_LIST = text("""
    SELECT extract(epoch FROM at) AS at, cluster, names, nodes FROM history_moments
     WHERE at > corral_now() - make_interval(secs => :kept_s) ORDER BY at LIMIT :most
""")


async def add_moment(tx: Transaction, moment: HistoryMoment, *, kept_s: float) -> bool:
    """Insert a row with the current values, unless another frontend has just done so, and delete old rows. Return
    whether it was inserted. The time of the row is the database's, not `moment.at`."""
    values = {
        "cluster": json.dumps(moment.cluster),
        "names": json.dumps(list(moment.names)),
        "nodes": json.dumps({node: list(readings) for node, readings in moment.nodes.items()}),
        "apart_s": _APART_S,
    }
    written = await tx.execute(_ADD, values)
    await tx.execute(_PRUNE, {"kept_s": kept_s})
    return bool(written.rowcount)


async def list_moments(tx: Transaction, *, kept_s: float, most: int) -> list[HistoryMoment]:
    """Return the rows of the last `kept_s` seconds, the oldest first."""
    rows = await tx.execute(_LIST, {"kept_s": kept_s, "most": most})
    return [
        HistoryMoment(at=float(row.at), cluster=row.cluster, names=tuple(row.names), nodes=row.nodes) for row in rows
    ]
