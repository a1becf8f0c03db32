"""Backends on a node's disk: what is installed, how a backend gets there, and how it is removed.

`installer.py` is the one installer; `sources/` fetch and verify; `layout.py` is the only writer of what counts.
"""
