"""Asking for a model to be loaded, as those who wait for one see it."""

from __future__ import annotations

from typing import Protocol

from corral.domain.operation import OperationId


class Loads(Protocol):
    async def ask(self, model: str) -> OperationId:
        """The operation that will bring the model: the one that is under way, else a new one.

        Asking is free to repeat, on any number of frontends. A load that failed a moment ago is not begun again: its
        id is given once more, so that whoever asks reads the recorded cause. `CorralError` says why it cannot be
        asked for at all.
        """
        ...
