"""Stores which files in the library the programs of runs have made, such as the parts of checkpoints."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert

from corral.domain.fine_tuning import RunFile
from corral.store.database import Transaction
from corral.store.fine_tune_schema import run_files


async def put_file(tx: Transaction, file: RunFile) -> None:
    """Record a file of a run; a file of the same folder and path takes the place of an earlier one."""
    statement = insert(run_files).values(
        run_id=file.run_id, folder=file.folder, path=file.path, sha256=file.sha256, size_bytes=file.size_bytes
    )
    columns = [run_files.c.run_id, run_files.c.folder, run_files.c.path]
    values = {"sha256": file.sha256, "size_bytes": file.size_bytes}
    await tx.execute(statement.on_conflict_do_update(index_elements=columns, set_=values))


async def list_files(tx: Transaction, run_id: str, folder: str) -> list[RunFile]:
    """Return the files of one folder of a run, by path."""
    statement = select(run_files).where(run_files.c.run_id == run_id, run_files.c.folder == folder)
    return [_to_file(row) for row in await tx.execute(statement.order_by(run_files.c.path))]


async def copy_files(tx: Transaction, source_run: str, folder: str, run_id: str) -> None:
    """Let another run have the files of a folder, too."""
    for file in await list_files(tx, source_run, folder):
        await put_file(
            tx,
            RunFile(run_id=run_id, folder=folder, path=file.path, sha256=file.sha256, size_bytes=file.size_bytes),
        )


async def delete_folders(tx: Transaction, run_id: str, *, keep: Collection[str]) -> list[str]:
    """Forget the files of a run in all other folders, and return their hashes."""
    statement = delete(run_files).where(run_files.c.run_id == run_id, run_files.c.folder.not_in(list(keep)))
    return sorted({row.sha256 for row in await tx.execute(statement.returning(run_files.c.sha256))})


async def list_hashes(tx: Transaction, run_ids: Collection[str]) -> list[str]:
    statement = select(run_files.c.sha256).where(run_files.c.run_id.in_(list(run_ids))).distinct()
    return [row.sha256 for row in await tx.execute(statement)]


def _to_file(row: Any) -> RunFile:
    return RunFile(
        run_id=str(row.run_id), folder=row.folder, path=row.path, sha256=row.sha256, size_bytes=row.size_bytes
    )
