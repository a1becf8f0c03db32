"""Loops that correct the registry: one leader by lease, lost nodes, old rows, this frontend's own presence.

Level-triggered: each pass reads the state and corrects it. Writes of the leader are fenced by its term.
"""
