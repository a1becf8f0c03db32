"""Chooses the replica for a request, limits how many requests it has at a time, and waits for loads.

A warm request is decided from memory (`routing_snapshot.py`, `replica_pool.py`, `policy/serving/`); only a request that
has to wait for a load touches the registry.
"""
