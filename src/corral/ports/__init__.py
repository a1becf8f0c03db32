"""Protocols for what the flows need from outside, where there is more than one implementation.

The clock, ids and the bus have a real one and one inside the simulator. The store has no port: it is written once and
the simulator runs the same code on a real database (ADR 3).
"""
