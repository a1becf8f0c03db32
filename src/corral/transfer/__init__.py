"""Moves files: over HTTP, from registries and indexes, verified and resumed. Workers and frontends share this package.

Nothing here knows what the files are for. Time, randomness and the environment are parameters.
"""
