// Filters the matrix, and counts its cells of each kind.
import type { MatrixCellData, MatrixData } from "@/pages/backends/fleet";
import type { MATRIX_FILTERS } from "@/pages/backends/search";

export type MatrixFilter = (typeof MATRIX_FILTERS)[number];

const KINDS: Record<MatrixFilter, (cell: MatrixCellData) => boolean> = {
  drift: (cell) => cell.drifts,
  upgrades: (cell) => cell.upgrade !== "",
  failed: (cell) => cell.state === "failed",
  busy: (cell) => cell.state === "busy" || cell.state === "queued" || cell.state === "pending",
  missing: (cell) => cell.state === "missing",
};

export function countCells(matrix: MatrixData): Record<MatrixFilter, number> {
  const found: Record<MatrixFilter, number> = { drift: 0, upgrades: 0, failed: 0, busy: 0, missing: 0 };
  for (const row of matrix.rows)
    for (const cell of row.cells)
      for (const kind of Object.keys(KINDS) as MatrixFilter[]) if (KINDS[kind](cell)) found[kind] += 1;
  return found;
}

/** Rows and columns with a cell of the kind. A search text finds backends or, if none matches, nodes. */
export function filterMatrix(matrix: MatrixData, show: MatrixFilter | undefined, words: string): MatrixData {
  const searched = words.trim().toLowerCase();
  const byName = matrix.rows.filter((row) => row.name.toLowerCase().includes(searched));
  const isAboutNodes = searched !== "" && byName.length === 0;
  const rows = isAboutNodes ? matrix.rows : byName;
  const is = show ? KINDS[show] : () => true;
  const kept = rows.filter((row) => row.cells.some(is));
  const places = matrix.columns.flatMap((node, place) => {
    const isNamed = !isAboutNodes || node.name.toLowerCase().includes(searched);
    const isThere = !show || kept.some((row) => row.cells[place] && is(row.cells[place]));
    return isNamed && isThere ? [place] : [];
  });
  if (places.length === matrix.columns.length) return { columns: matrix.columns, rows: kept };
  const pick = <T>(all: readonly T[]): T[] => places.flatMap((place) => all[place] ?? []);
  return { columns: pick(matrix.columns), rows: kept.map((row) => ({ ...row, cells: pick(row.cells) })) };
}
