"""Corral turns a handful of unequal machines into one inference service.

Read ARCHITECTURE.md for the map. Imports point down: cli, app, api, the flows (nodes, access,
reconcile, events), store, runtime, policy, ports, domain. A tool checks it.
"""

__version__ = "0.1.0"
