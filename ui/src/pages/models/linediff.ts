// Compares two texts line by line. Long unchanged parts are left out.

interface DiffLine {
  kind: "same" | "gone" | "new" | "left out";
  text: string;
  /** The line numbers in the old and in the new text. */
  old: number | null;
  new: number | null;
}

const CONTEXT_LINES = 3;

export function lineDiff(before: string, after: string): DiffLine[] {
  return folded(aligned(splitLines(before), splitLines(after)));
}

function splitLines(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Diffs by the longest common subsequence, which is fast enough for short configurations. */
function aligned(before: string[], after: string[]): DiffLine[] {
  const rows = before.length + 1;
  const columns = after.length + 1;
  const common = new Uint32Array(rows * columns);
  const at = (row: number, column: number) => common[row * columns + column] ?? 0;
  for (let row = before.length - 1; row >= 0; row -= 1)
    for (let column = after.length - 1; column >= 0; column -= 1)
      common[row * columns + column] =
        before[row] === after[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
  const found: DiffLine[] = [];
  let row = 0;
  let column = 0;
  while (row < before.length || column < after.length) {
    const old = before[row];
    const now = after[column];
    if (old !== undefined && old === now) {
      found.push({ kind: "same", text: old, old: row + 1, new: column + 1 });
      row += 1;
      column += 1;
    } else if (old !== undefined && (now === undefined || at(row + 1, column) >= at(row, column + 1))) {
      found.push({ kind: "gone", text: old, old: row + 1, new: null });
      row += 1;
    } else {
      found.push({ kind: "new", text: now ?? "", old: null, new: column + 1 });
      column += 1;
    }
  }
  return found;
}

function folded(lines: DiffLine[]): DiffLine[] {
  const near = lines.map((_, place) =>
    lines
      .slice(Math.max(0, place - CONTEXT_LINES), place + CONTEXT_LINES + 1)
      .some((line) => line.kind !== "same"),
  );
  const found: DiffLine[] = [];
  let skipped = 0;
  const flush = () => {
    if (skipped) found.push({ kind: "left out", text: String(skipped), old: null, new: null });
    skipped = 0;
  };
  lines.forEach((line, place) => {
    if (near[place]) {
      flush();
      found.push(line);
    } else skipped += 1;
  });
  flush();
  return found;
}
