"""Runs `corral up`, `status` and `down` with stand-ins for the frontend and the worker, as a person would run them."""

import os
import sys
from pathlib import Path

import corral.app.up
from corral.__main__ import main

HERE = Path(__file__).parent
SERVE = os.environ.get("TEST_SERVE", str(HERE / "frontend.py"))

# The command line leaves these at their defaults.
defaults = corral.app.up.UpOptions.__init__.__kwdefaults__
assert defaults is not None
defaults["serve_command"] = (sys.executable, SERVE)
defaults["worker_command"] = (sys.executable, str(HERE / "worker.py"))

sys.exit(main())
