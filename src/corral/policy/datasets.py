"""Reads datasets of examples as they arrive: JSON lines, CSV or JSON, and names the lines that are broken.

Guarantee: a dataset that passes has only rows that a trainer can read. Limit: JSON lines are read as they come; a file
of CSV or JSON is kept whole, and may have fewer bytes for that.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.domain.errors import InvalidRequest, TooLarge

FORMATS = ("jsonl", "csv", "json")
# One example; a longer one cannot be trained on.
LINE_BYTES_MAX = 1024 * 1024
# Of files that are kept whole while they are read.
WHOLE_BYTES_MAX = 64 * 1024 * 1024
ROWS_MAX = 5_000_000
COLUMNS_MAX = 100
PROBLEMS_MAX = 20
_HINT = "Each row is an object with fields such as prompt and completion, or messages."


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    """What was found in a dataset: its form, the number of rows, and the columns that every row has."""

    format: str
    rows: int
    columns: tuple[str, ...]


def find_format(file_name: str) -> str:
    """Return the form that a file's name says; raise `InvalidRequest` for another one."""
    ending = file_name.lower().rpartition(".")[2]
    found = {"jsonl": "jsonl", "ndjson": "jsonl", "csv": "csv", "json": "json"}.get(ending)
    if found is None:
        raise InvalidRequest(
            f"The name of a dataset ends in .jsonl, .csv or .json, and this one is {file_name[:100]!r}.",
            hint="Convert it to JSON lines: one object in each line.",
            code="unknown_dataset_format",
        )
    return found


class DatasetReader:
    """Reads one dataset piece by piece, and says at its end what is in it or what is wrong with it."""

    def __init__(self, file_name: str) -> None:
        self.format = find_format(file_name)
        self._pending = bytearray()
        self._line = 0
        self._rows = 0
        self._columns: set[str] | None = None
        self._problems: list[dict[str, Any]] = []

    def feed(self, piece: bytes) -> None:
        """Read the next bytes of the file."""
        self._pending += piece
        if self.format != "jsonl":
            if len(self._pending) > WHOLE_BYTES_MAX:
                limit = f"{WHOLE_BYTES_MAX // 1024**2} MiB"
                raise TooLarge(f"A dataset of this form has at most {limit}.", hint="Convert it to JSON lines.")
            return
        *lines, rest = self._pending.split(b"\n")
        self._pending = bytearray(rest)
        for line in lines:
            self._read_line(line)
        if len(self._pending) > LINE_BYTES_MAX:
            raise InvalidRequest(f"Line {self._line + 1} is longer than {LINE_BYTES_MAX // 1024} KiB.", hint=_HINT)

    def finish(self) -> DatasetFacts:
        """Return what the dataset has. Raises `InvalidRequest` with the lines that are broken."""
        if self.format == "jsonl":
            self._read_line(self._pending)
        elif self.format == "csv":
            self._read_csv(_decode(self._pending))
        else:
            self._read_json(_decode(self._pending))
        if self._problems:
            first = self._problems[0]
            more = f", and {len(self._problems) - 1} more" if len(self._problems) > 1 else ""
            raise InvalidRequest(
                f"The dataset is broken in line {first['line']}: {first['problem']}{more}.",
                hint=_HINT,
                code="broken_dataset",
                details={"lines": self._problems},
            )
        if not self._rows:
            raise InvalidRequest("The dataset has no rows.", hint=_HINT, code="empty_dataset")
        return DatasetFacts(format=self.format, rows=self._rows, columns=tuple(sorted(self._columns or ())))

    def _read_line(self, line: bytes | bytearray) -> None:
        self._line += 1
        if not line.strip():
            return
        try:
            row = json.loads(_decode(line))
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "it is not UTF-8 or nested too deeply"
            self._add_problem(self._line, f"it is no JSON ({reason})")
            return
        self._add_row(self._line, row)

    def _read_csv(self, text: str) -> None:
        csv.field_size_limit(LINE_BYTES_MAX)
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        header: list[str] | None = None
        try:
            for values in reader:
                if header is None:
                    header = [name.strip() for name in values]
                    if not all(header) or len(set(header)) < len(header):
                        self._add_problem(1, "it has to name each column once")
                        return
                elif values:
                    if len(values) != len(header):
                        text = f"it has {len(values)} fields, and the first line names {len(header)}"
                        self._add_problem(reader.line_num, text)
                    else:
                        self._add_row(reader.line_num, dict(zip(header, values, strict=True)))
        except csv.Error as error:
            self._add_problem(reader.line_num, f"it is no CSV ({error})")

    def _read_json(self, text: str) -> None:
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            self._add_problem(error.lineno, f"it is no JSON ({error.msg})")
            return
        except RecursionError:
            self._add_problem(1, "it is nested too deeply")
            return
        rows = found.get("data") if isinstance(found, dict) else found
        if not isinstance(rows, list):
            self._add_problem(1, "the file is neither a list of rows nor an object with one in `data`")
            return
        for number, row in enumerate(rows, start=1):
            self._add_row(number, row, "row")

    def _add_row(self, line: int, row: object, word: str = "line") -> None:
        if not isinstance(row, dict):
            self._add_problem(line, f"this {word} is no object")
            return
        if len(row) > COLUMNS_MAX:
            self._add_problem(line, f"it has more than {COLUMNS_MAX} fields")
            return
        names = {name[:100] for name, value in row.items() if value is not None}
        self._columns = names if self._columns is None else self._columns & names
        self._rows += 1
        if self._rows > ROWS_MAX:
            raise TooLarge(f"A dataset has at most {ROWS_MAX:,} rows.")

    def _add_problem(self, line: int, problem: str) -> None:
        if len(self._problems) < PROBLEMS_MAX:
            self._problems.append({"line": line, "problem": problem})


def _decode(content: bytes | bytearray) -> str:
    try:
        return bytes(content).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = bytes(content[: error.start]).count(b"\n") + 1
        raise InvalidRequest(
            f"Line {line} of the dataset is not UTF-8.", hint="Save the file as UTF-8.", code="broken_dataset"
        ) from error


_PROMPTS = ("prompt", "question", "instruction")
_ANSWERS = ("completion", "response", "output", "answer")
_PAIR = (("chosen",), ("rejected",))
# For each method the sets of columns that do, each a list of columns of which one has to be there.
_NEEDED: Mapping[str, tuple[tuple[tuple[str, ...], ...], ...]] = {
    "sft": ((("messages",),), (("conversations",),), (("text",),), (_PROMPTS, _ANSWERS)),
    "dpo": (_PAIR,),
    "reward": (_PAIR,),
    "kto": ((_PROMPTS, _ANSWERS, ("label",)),),
    "grpo": ((_PROMPTS,),),
    "rloo": ((_PROMPTS,),),
}


def check_columns(method: str, columns: tuple[str, ...]) -> None:
    """Raise `InvalidRequest` if rows with these columns are no examples for a method."""
    known = set(columns)
    if any(all(known & set(names) for names in one) for one in _NEEDED[method]):
        return
    forms = " or ".join(" and ".join(names[0] for names in one) for one in _NEEDED[method])
    raise InvalidRequest(
        f"Training with {method} needs rows with {forms}, and all rows of this dataset have {', '.join(columns)}.",
        hint="Rename the columns, or choose another method.",
        code="unsuited_dataset",
        details={"columns": list(columns)},
    )
