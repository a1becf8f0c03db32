"""Runs `corral up`, `status` and `down` with stand-ins for the frontend and the worker, as a person would run them."""

# ruff: noqa: TID251 - a program of its own, without settings to be given

import os
import sys
from pathlib import Path

import typer

import corral.app.up
from corral.cli import cluster

HERE = Path(__file__).parent
SERVE = os.environ.get("TEST_SERVE", str(HERE / "frontend.py"))

# The command line leaves these at their defaults.
defaults = corral.app.up.UpOptions.__init__.__kwdefaults__
assert defaults is not None
defaults["serve_command"] = (sys.executable, SERVE)
defaults["worker_command"] = (sys.executable, str(HERE / "worker.py"))

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(cluster.up)
app.command()(cluster.status)
app.command()(cluster.down)
app()
