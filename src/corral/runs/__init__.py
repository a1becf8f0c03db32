"""Runs: work on behalf of a person, as operations of the pool `run`."""
