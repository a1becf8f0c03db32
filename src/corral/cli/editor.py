"""Opens a text in the user's editor. The draft is kept in a file until it was saved."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from corral.domain.errors import InvalidRequest

FALLBACK = "vi"


class DraftFile:
    """A temporary file with a text that a person edits. `discard` it once the text was saved; else it stays for its
    owner to find."""

    def __init__(self, text: str) -> None:
        handle, name = tempfile.mkstemp(prefix="corral-", suffix=".yaml")
        self.path = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)

    def edit(self) -> str:
        """Open the draft in the editor, wait until the editor has ended, and return the text."""
        words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or FALLBACK)
        try:
            done = subprocess.run([*words, str(self.path)], check=False)  # noqa: S603 - the person's own editor
        except OSError as error:
            raise InvalidRequest(
                f"The editor {words[0]!r} cannot be started: {error.strerror}.", hint="Set EDITOR to another program."
            ) from error
        if done.returncode:
            raise InvalidRequest(f"The editor failed with exit code {done.returncode}; nothing was changed.")
        return self.path.read_text(encoding="utf-8")

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
