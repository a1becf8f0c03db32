"""Runs whose work is a program of its own on a backend node, such as a quantisation."""
