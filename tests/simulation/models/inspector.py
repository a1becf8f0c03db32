"""What must hold for models at every moment, read from the witness and held against what truly ran on the machines.

Every change of a row is looked at once, in the order of the commits; nothing here asks the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text
from typing_extensions import override

from corral.domain.operation import OperationState
from tests.simulation.clock import START
from tests.simulation.models.frontend import SimEngines
from tests.simulation.models.host import Host
from tests.simulation.models.work import ModelsWork
from tests.simulation.operations.inspector import Look, OperationsInspector
from tests.simulation.worlds import SimulationDeps

OPERATION_WITNESS = text(
    "SELECT * FROM operation_witness WHERE number > :after AND what <> 'assignments' ORDER BY number"
)
MODEL_WITNESS = text("SELECT * FROM model_witness WHERE number > :after ORDER BY number")
REPLICAS = text("SELECT r.*, n.name AS node_name FROM replicas r JOIN nodes n ON n.id = r.node_id ORDER BY 1")
RESERVATIONS = text("SELECT v.holder, n.name AS node_name FROM reservations v JOIN nodes n ON n.id = v.node_id")
MODELS = text("SELECT name, run_hash, config FROM models ORDER BY name")
RULES = text("SELECT * FROM rules ORDER BY model")
REMOVALS = text("SELECT d.model, n.name AS node_name FROM model_removals d JOIN nodes n ON n.id = d.node_id")
USES = text("SELECT frontend_id, in_flight FROM replica_use WHERE in_flight > 0 AND expires_at > corral_now()")
LABELS = text("SELECT n.name, l.key, l.value FROM node_labels l JOIN nodes n ON n.id = l.node_id")
OPERATIONS = text("SELECT * FROM operations ORDER BY created_at, id")
TARGETS = text("SELECT * FROM operation_targets ORDER BY operation_id, node_name")
NODES = text("SELECT * FROM nodes ORDER BY name")
# Rows go for these because their node is out of it: what ran there is found when it reports.
WITH_THE_NODE = (
    "the node was drained",
    "the node was removed",
    "its worker has stopped",
    "its worker was restarted",
    "its node was lost",
)
NO_LISTENER = "no engine is listening"
CHANGES_OF_MODELS = ("model_edited", "model_disabled", "model_not_found")
KNOCKED_S = 15.0
# How far behind a frontend may be that reaches the database: an event, its reading, and a request under way.
BEHIND_S = 10.0
_S = OperationState


@dataclass(slots=True)
class ModelsLook(Look):
    replicas: Sequence[Any] = ()
    reservations: Sequence[Any] = ()
    models: Sequence[Any] = ()
    rules: Sequence[Any] = ()
    removals: Sequence[Any] = ()
    uses: Sequence[Any] = ()
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    now_s: float = 0.0


class ModelsInspector(OperationsInspector):
    def __init__(self, around: SimulationDeps, works: Mapping[str, ModelsWork], engines: SimEngines) -> None:
        super().__init__(around, works)
        self._hosts: dict[str, Host] = {name: work.host for name, work in works.items()}
        self._engines = engines
        self._seen = 0
        self._running: dict[str, set[str]] = {}
        # model -> when it became what; None: it was deleted.
        self._hashes: dict[str, list[tuple[float, str | None]]] = {}
        self._reasons: dict[int, dict[tuple[str, str], str]] = {}
        self._checked = 0
        # Which job was to start each replica, and those whose rows went before anybody knew of a process.
        self._jobs: dict[str, str] = {}
        self._forgotten: dict[str, tuple[float, str]] = {}
        self.names: dict[str, str] = {}
        # When the store could not be reached by everybody, from and to.
        self.outages: list[tuple[float, float]] = []

    @override
    async def look(self, *, in_full: bool = False) -> ModelsLook:
        look = ModelsLook(now_s=self._around.now())
        async with self._database.transaction() as tx:
            operations = (await tx.execute(OPERATION_WITNESS, {"after": self._last})).all()
            changes = (await tx.execute(MODEL_WITNESS, {"after": self._seen})).all()
            look.nodes = (await tx.execute(NODES)).all()
            if in_full:
                look.operations = (await tx.execute(OPERATIONS)).all()
                look.targets = (await tx.execute(TARGETS)).all()
                look.replicas = (await tx.execute(REPLICAS)).all()
                look.reservations = (await tx.execute(RESERVATIONS)).all()
                look.models = (await tx.execute(MODELS)).all()
                look.rules = (await tx.execute(RULES)).all()
                look.removals = (await tx.execute(REMOVALS)).all()
                look.uses = (await tx.execute(USES)).all()
                labels: dict[str, dict[str, str]] = {}
                for row in (await tx.execute(LABELS)).all():
                    labels.setdefault(row.name, {})[row.key] = row.value
                look.labels = labels
        # Nodes that are gone keep their names here.
        self.names |= {str(node.id): node.name for node in look.nodes}
        for row in operations:
            self._last = row.number
            if row.what == "operations":
                self._check_operation(row)
                self._check_alone(row)
                self._check_superseded(row)
            else:
                plan = (row.new["build"] or {}).get("load") or {}
                self._jobs[plan.get("replica", "")] = row.new["job_id"]
        self._gather_reasons(changes)
        for row in changes:
            self._seen = row.number
            if row.what == "models":
                self._take_model(row)
            elif row.what == "replicas":
                self._take_replica(row)
        self._check_requests()
        self._check_forgotten()
        return look

    # --- one at a time ---

    def _check_alone(self, row: Any) -> None:
        new = row.new
        running = self._running.setdefault(new["scope_key"], set())
        if new["state"] == _S.RUNNING:
            running.add(new["id"])
        else:
            running.discard(new["id"])
        if len(running) > 1:
            self._violated(f"{sorted(running)} are under way for {new['scope_key']} at once")

    def _check_superseded(self, row: Any) -> None:
        """Check that an operation whose model was edited, disabled or deleted meanwhile is superseded, not failed."""
        new = row.new
        if new["state"] == _S.FAILED and new["error_code"] in CHANGES_OF_MODELS:
            self._violated(f"operation {new['id']} has failed because {new['subject']} was changed by an admin")
        if new["state"] == _S.SUPERSEDED and new["error_code"] not in CHANGES_OF_MODELS:
            self._violated(f"operation {new['id']} is superseded because of {new['error_code']}")

    # --- models ---

    def _take_model(self, row: Any) -> None:
        at_s = (row.at - START).total_seconds()
        name = (row.new or row.old)["name"]
        known = self._hashes.setdefault(name, [])
        run_hash = row.new["run_hash"] if row.new else None
        if not known or known[-1][1] != run_hash:
            known.append((at_s, run_hash))

    def _check_requests(self) -> None:
        """Check that no request goes to an earlier configuration of a model once its frontend can know better."""
        for served in self._engines.served[self._checked :]:
            self._checked += 1
            since_s = max(
                (
                    until_s
                    for until_s, run_hash in _until(self._hashes.get(served.model, []))
                    if run_hash == served.revision
                ),
                default=-1.0,
            )
            if since_s < 0:
                self._violated(f"a request for {served.model} was given to {served.revision[:8]}, which it never was")
            elif served.at_s > since_s + self._behind_s() and self._could_know(served.frontend, since_s, served.at_s):
                self._violated(
                    f"a request for {served.model} was given at {served.at_s:.1f} s to a replica of"
                    f" {served.revision[:8]}, which it was until {since_s:.1f} s"
                )

    def _behind_s(self) -> float:
        return self._around.feed_interval_s + BEHIND_S

    def _could_know(self, frontend: str, since_s: float, until_s: float) -> bool:
        if any(began_s < until_s and ended_s > since_s for began_s, ended_s in self.outages):
            return False
        lives = [life for life in self._around.diary.lives.values() if life.frontend == frontend]
        return all(not (began_s < until_s and ended_s > since_s) for life in lives for began_s, ended_s in life.away)

    # --- replicas ---

    def _gather_reasons(self, changes: Sequence[Any]) -> None:
        self._reasons = {}
        for row in changes:
            if row.what == "outbox":
                data = row.new["data"]
                self._reasons.setdefault(row.transaction, {})[data["node_id"], data["model"]] = data["reason"]

    def _take_replica(self, row: Any) -> None:
        if row.old is None:
            self._check_placed(row)
        elif row.new is None:
            self._check_removed(row)
        if row.new is not None and (row.old is None or row.old["state"] != row.new["state"]):
            new = row.new
            self._count(f"replica {new['state']}")
            self._around.trace.add(
                f"replica {new['id'][-6:]} {new['model']}#{new['replica_index']} on {self._name_of(new['node_id'])}"
                f" {row.old['state'] if row.old else 'new'} -> {new['state']} by {row.participant} at {row.at}:"
                f" {new['stop_reason']}"
            )

    def _check_placed(self, row: Any) -> None:
        new, node = row.new, row.promised
        if node is None or new["state"] != "staging":
            return
        where = f"{new['model']}#{new['replica_index']} was placed on {node['node']}"
        for what in ("ram", "threads", "slots"):
            if what == "threads" and new["threads"] <= 1:
                continue  # A replica on the processor gets one thread also when none is free.
            if node[what] is not None and (node[f"{what}_taken"] or 0) > node[what]:
                self._violated(f"{where}: {node[f'{what}_taken']} of {node[what]} {what} are promised")
        if node["drained"] or node["liveness"] != "alive":
            self._violated(f"{where}, which is {node['liveness']}, drained {node['drained']}")
        if node["run_hash"] != new["revision"]:
            self._violated(f"{where} as {new['revision'][:8]}, and the model is {node['run_hash']}")

    def _check_removed(self, row: Any) -> None:
        """Check that a replica's row goes after its process, unless it goes with its node."""
        old = row.old
        reason = self._reasons.get(row.transaction, {}).get((old["node_id"], old["model"]), "")
        name = self._name_of(old["node_id"])
        self._around.trace.add(
            f"replica {old['id'][-6:]} {old['model']}#{old['replica_index']} on {name} {old['state']} is gone: {reason}"
        )
        if not reason or reason in WITH_THE_NODE or name not in self._hosts:
            # Without a reason: with the row of its node.
            return
        at_s = (row.at - START).total_seconds()
        key = f"{old['model']}#{old['replica_index']}"
        for engine in self._hosts[name].lives:
            is_its = engine.address == old["address"] or (
                not old["address"] and engine.command.operation_id == old["operation_id"]
            )
            if reason.lower().startswith(NO_LISTENER):
                # A frontend tried to connect before the row went. A process that crashed and restarts does not count.
                is_there = engine.was_alive(at_s) and engine.was_listening(at_s - KNOCKED_S)
            else:
                is_there = engine.was_alive(at_s)
            if engine.key == key and is_its and engine.command.revision == old["revision"] and is_there:
                self._violated(f"the row of {key} on {name} is gone ({reason}), and its process {engine.pid} runs")

        if not old["address"] and old["id"] in self._jobs:
            self._forgotten[self._jobs[old["id"]]] = (at_s, f"{key} on {name} ({reason})")

    def _check_forgotten(self) -> None:
        """Check that no job starts a process whose row is gone."""
        for host in self._hosts.values():
            for engine in host.lives:
                gone = self._forgotten.get(engine.command.job_id)
                if gone is not None and engine.began_s > gone[0]:
                    del self._forgotten[engine.command.job_id]
                    self._violated(
                        f"the row of {gone[1]} was gone at {gone[0]:.3f} s, and its process {engine.pid} was"
                        f" started at {engine.began_s:.3f} s"
                    )

    def _name_of(self, node_id: str) -> str:
        return self.names.get(node_id, node_id)

    @override
    def _violated(self, sentence: str) -> None:
        self._around.violated(sentence)


def _until(history: Sequence[tuple[float, str | None]]) -> list[tuple[float, str | None]]:
    """Return each hash with the moment at which it was replaced; for the present one, infinity."""
    ends = [at_s for at_s, _ in history[1:]] + [float("inf")]
    return [(end_s, run_hash) for end_s, (_, run_hash) in zip(ends, history, strict=True)]
