"""Agents: their configurations and threads, their turns as runs, their schedule and their streams."""
