"""Loads: from a model that is wanted to a replica that answers, the one way to end one, and what nodes hold of it."""
