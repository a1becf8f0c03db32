"""What Corral's own code costs of a request: the hot path without sockets, under the system's Python (`hot_path.py`).

It is the figure to look at when that code changes: neighbours, kernel and crowd have no part in it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bench.gateway.installation import ensure_corral_python
from bench.report import ReportRow, format_table


def run() -> str:
    command = [ensure_corral_python(), str(Path(__file__).with_name("hot_path.py"))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    results: dict[str, float] = json.loads(done.stdout)
    values = {
        "an answer, µs": results["json_us"],
        "a stream, µs": results["stream_us"],
        "an event of it, µs": (results["stream_us"] - results["json_us"]) / results["events"],
    }
    return format_table("The gateway's own code, without sockets, best of many rounds", [ReportRow("Corral", values)])
