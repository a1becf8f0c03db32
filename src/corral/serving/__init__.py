"""Requests for models: which replica answers, how many it answers now, and waiting for one that is not loaded.

A warm request is decided from memory (`snapshot.py`, `seats.py`, `policy/serving/`); only what has to wait for a load
touches the registry. What arrives and leaves over HTTP is no matter of this package.
"""
