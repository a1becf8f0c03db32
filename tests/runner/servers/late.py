"""The server of `tools.py`, which begins to answer when the note `go` appears in the folder NOTES; each start is noted.

With an argument it ends at once, and the argument is its last word.
"""

from __future__ import annotations

import asyncio
import os
import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.support.polling import eventually

NOTES = Path(os.environ["NOTES"])


async def is_released() -> bool:
    return (NOTES / "go").exists()


with (NOTES / "attempts").open("a") as attempts:
    attempts.write("x")
if len(sys.argv) > 1:
    sys.exit(sys.argv.pop())
asyncio.run(eventually(is_released, within_s=600))
runpy.run_path(str(Path(__file__).with_name("tools.py")), run_name="__main__")
