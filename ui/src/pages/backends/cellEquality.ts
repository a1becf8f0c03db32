// Compares cells, so that unchanged ones are not rendered again: progress on one node renders one cell.
import type { MatrixCellData } from "@/pages/backends/fleet";

export function isSameCell(one: MatrixCellData, other: MatrixCellData): boolean {
  for (const key of Object.keys(one) as (keyof MatrixCellData)[]) if (one[key] !== other[key]) return false;
  return true;
}
