// Which part of the matrix is shown, and how many cells there are of each kind.
import type { Cell, Matrix } from "@/pages/backends/fleet";
import type { SHOWN } from "@/pages/backends/search";

export type Shown = (typeof SHOWN)[number];

const KINDS: Record<Shown, (cell: Cell) => boolean> = {
  drift: (cell) => cell.drifts,
  upgrades: (cell) => cell.upgrade !== "",
  failed: (cell) => cell.state === "failed",
  busy: (cell) => cell.state === "busy" || cell.state === "queued" || cell.state === "owed",
  missing: (cell) => cell.state === "missing",
};

export function counts(matrix: Matrix): Record<Shown, number> {
  const found: Record<Shown, number> = { drift: 0, upgrades: 0, failed: 0, busy: 0, missing: 0 };
  for (const row of matrix.rows)
    for (const cell of row.cells)
      for (const kind of Object.keys(KINDS) as Shown[]) if (KINDS[kind](cell)) found[kind] += 1;
  return found;
}

/** Rows and columns in which something of the kind is. Words find backends or, if none is called so, nodes. */
export function narrowed(matrix: Matrix, show: Shown | undefined, words: string): Matrix {
  const wanted = words.trim().toLowerCase();
  const byName = matrix.rows.filter((row) => row.name.toLowerCase().includes(wanted));
  const isAboutNodes = wanted !== "" && byName.length === 0;
  const rows = isAboutNodes ? matrix.rows : byName;
  const is = show ? KINDS[show] : () => true;
  const kept = rows.filter((row) => row.cells.some(is));
  const places = matrix.columns.flatMap((node, place) => {
    const isNamed = !isAboutNodes || node.name.toLowerCase().includes(wanted);
    const isThere = !show || kept.some((row) => row.cells[place] && is(row.cells[place]));
    return isNamed && isThere ? [place] : [];
  });
  if (places.length === matrix.columns.length) return { columns: matrix.columns, rows: kept };
  const pick = <T>(all: readonly T[]): T[] => places.flatMap((place) => all[place] ?? []);
  return { columns: pick(matrix.columns), rows: kept.map((row) => ({ ...row, cells: pick(row.cells) })) };
}
