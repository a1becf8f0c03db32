"""Decisions as pure functions of known facts: no waiting, no reading, no writing, no logging.

Standard library and `domain` only, so that every rule here can be tested in microseconds and explained to a person.
"""
