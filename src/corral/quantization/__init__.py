"""Quantisations: runs that make a model smaller on a backend node, and register the result as a model."""
