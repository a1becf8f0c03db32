"""Moving files: over HTTP, from registries and indexes, verified and resumed. Workers and frontends share it.

Nothing here knows what the files are for. Time, chance and the environment are parameters.
"""
