"""Storages that all frontends share, made real. Each is imported only where it is set up."""
