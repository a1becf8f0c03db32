"""The tables of fine-tunings, and of files in the library that runs have made."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from corral.store.run_schema import EMPTY_OBJECT
from corral.store.schema import ID, NOW, TIME, metadata

# Files that the programs of runs have made and sent into the library, such as the parts of a checkpoint. They go with
# their run.
run_files = Table(
    "run_files",
    metadata,
    Column("run_id", ID, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    # Files that belong together.
    Column("folder", String(64), primary_key=True),
    Column("path", String(255), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
)
Index("run_files_sha256_idx", run_files.c.sha256)

fine_tunes = Table(
    "fine_tunes",
    metadata,
    Column("id", ID, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    # The base model and the dataset, as they were named then: the row outlives them.
    Column("model", String(255), nullable=False),
    Column("backend", String(255), nullable=False),
    Column("method", String(16), nullable=False),
    Column("training_type", String(16), nullable=False),
    Column("dataset_id", ID, nullable=False, index=True),
    Column("dataset_name", String(255), nullable=False),
    Column("parameters", JSONB, nullable=False),
    # The job and the checkpoint that it goes on from.
    Column("resumed_from", String(64), nullable=False, server_default=""),
    # The end with a checkpoint was requested.
    Column("is_stopping", Boolean, nullable=False, server_default=text("false")),
    Column("result", JSONB, nullable=False, server_default=EMPTY_OBJECT),
)

# A row stands for files that are whole.
fine_tune_checkpoints = Table(
    "fine_tune_checkpoints",
    metadata,
    Column("fine_tune_id", ID, ForeignKey("fine_tunes.id", ondelete="CASCADE"), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("epoch", Double),
    Column("loss", Double),
    Column("is_inherited", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", TIME, nullable=False, server_default=NOW),
)

fine_tune_exports = Table(
    "fine_tune_exports",
    metadata,
    Column("id", ID, primary_key=True),
    Column("fine_tune_id", ID, ForeignKey("fine_tunes.id", ondelete="CASCADE"), nullable=False, index=True),
    # The run that makes its files; NULL: none was needed, or it was pruned.
    Column("run_id", ID, ForeignKey("runs.id", ondelete="SET NULL"), index=True),
    Column("format", String(16), nullable=False),
    Column("weight_type", String(16), nullable=False, server_default=""),
    Column("name", String(255), nullable=False),
    Column("step", Integer, nullable=False),
    Column("status", String(16), nullable=False),
    Column("message", Text, nullable=False, server_default=""),
    Column("registered_name", String(255), nullable=False, server_default=""),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    CheckConstraint("status IN ('exporting', 'completed', 'failed')", name="status"),
)

# What was found in a dataset when it was uploaded; its bytes are those of its file.
fine_tune_datasets = Table(
    "fine_tune_datasets",
    metadata,
    Column("id", ID, ForeignKey("artifacts.id", ondelete="CASCADE"), primary_key=True),
    Column("format", String(8), nullable=False),
    Column("rows", Integer, nullable=False),
    Column("columns", JSONB, nullable=False),
)
