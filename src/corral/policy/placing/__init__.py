"""Decides where a model goes, what makes room for it, and how many replicas there are, without a database.

    Fleet  ──>  place  ──none fits──>  make_room  ──>  a node, an index, threads, victims; or every node's reason
    (index)     filters, then seconds  cheapest victims

`fleet.py` indexes what is known once; `placement.py` and `eviction.py` decide about one model; `scaling.py` says how
many replicas a rule and the load call for; `windows.py`, `rules.py` and `variants.py` read what admins have written.
A set of candidates that is empty means *none*, everywhere.
"""
