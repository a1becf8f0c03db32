"""Backends on a node's disk: what is installed, how it gets there, and how it goes away.

`installer.py` is the one installer; `sources/` fetch and verify; `records.py` is the only writer of what counts.
"""
