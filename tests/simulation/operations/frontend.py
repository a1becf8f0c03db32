"""A frontend whose work is operations: short leases, a small gallery, and few loops beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from typing_extensions import override

from corral.app.core import CoreOptions, FrontendCore
from tests.simulation.frontends import SimFrontend
from tests.simulation.operations.gallery import INDEX
from tests.support.catalogs import replace_built_in

OPERATION_LEASE_S = 12.0
NODE_LEASE_S = 30.0


class OperationsFrontend(SimFrontend):
    dispatch_intervals_s: Mapping[str, float] = {
        "dispatcher": 6.0,
        "operation leases": 3.0,
        "job events": 1.5,
        "operation deltas": 5.0,
    }

    @override
    def tune(self, core: FrontendCore) -> None:
        super().tune(core)
        core.loops["presence"].options = replace(core.loops["presence"].options, interval_s=60.0)
        core.loops["pruner"].options = replace(core.loops["pruner"].options, interval_s=600.0)
        replace_built_in(core.catalog, INDEX)

    @override
    def options(self, process: str) -> CoreOptions:
        return replace(
            super().options(process),
            operation_lease_s=OPERATION_LEASE_S,
            node_lease_s=NODE_LEASE_S,
            leader_lease_s=18.0,
            liveness_interval_s=6.0,
        )
