"""A library on a fresh database and folder, with models to enter files for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import text

from corral.adapters.system import SystemClock
from corral.domain.model import FilePart, Model, ModelConfig, ModelFile, StoredFile
from corral.library.library import FrontendLibrary
from corral.library.library_reader import LibraryOptions
from corral.store import models as model_store
from corral.store.database import Database
from tests.library.origins import PretendOrigins, RecordingProgress

FRONTEND = "frontend-1"


def one(path: str, *uris: str, sha256: str = "") -> ModelFile:
    return ModelFile(path=path, parts=tuple(FilePart(uri=uri) for uri in uris), sha256=sha256)


class Scene:
    def __init__(self, database: Database, root: Path, **options: Any) -> None:
        self.database = database
        self.folder = root
        self.origins = PretendOrigins()
        self.storage = options.pop("storage", None)
        values: dict[str, Any] = {"frontend_id": FRONTEND, "folder": root}
        self.options = LibraryOptions(**values | options)
        self.library = self.another()

    def another(self) -> FrontendLibrary:
        """The same library in the next life of its process."""
        return FrontendLibrary(self.options, self.database, self.origins, SystemClock(), self.storage)

    async def model(self, name: str, files: Sequence[ModelFile], **config: Any) -> Model:
        async with self.database.transaction() as tx:
            made = ModelConfig(name=name, backend="llama-cpp", files=tuple(files), **config)
            return await model_store.insert_model(tx, made, "a test", "")

    async def enter(
        self,
        name: str,
        *files: ModelFile,
        library: FrontendLibrary | None = None,
        report: RecordingProgress | None = None,
    ) -> tuple[StoredFile, ...]:
        """A model with these files, and the files held."""
        await self.model(name, files)
        return await (library or self.library).ensure_files(name, files, report or RecordingProgress())

    async def delete(self, name: str) -> None:
        async with self.database.transaction() as tx:
            await model_store.delete_model(tx, await model_store.lock_model(tx, name))

    async def found(self, name: str) -> Model:
        async with self.database.transaction() as tx:
            return await model_store.get_model(tx, name)

    async def rows(self, statement: str) -> list[tuple[Any, ...]]:
        async with self.database.transaction() as tx:
            return [tuple(row) for row in await tx.execute(text(statement))]

    def on_disk(self) -> list[str]:
        """Everything below the folder that is a file, except for the notes of contents."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.suffix != ".json"]
        return sorted(path.relative_to(self.folder).as_posix() for path in files)
