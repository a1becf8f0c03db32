"""Where chance enters the simulator: every random draw comes from a generator named after the run's seed.

Guarantee: the same seed and name give the same draws on every machine and under every PYTHONHASHSEED, and adding a
draw under one name does not move the draws of another.
"""

from __future__ import annotations

from random import Random

__all__ = ["Random", "chance"]


def chance(seed: int, name: str) -> Random:
    """Return the generator of random numbers that belongs to `name` in the run of `seed`."""
    # Random hashes a string with SHA-512, not with the process's own string hash.
    return Random(f"{seed}/{name}")
