"""Galleries of installable backends: their copies, and which build fits which node."""
