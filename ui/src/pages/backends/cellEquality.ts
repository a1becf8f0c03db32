// Cells that say the same are not drawn again, so that progress on one node costs one cell.
import type { MatrixCellData } from "@/pages/backends/fleet";

export function isSameCell(one: MatrixCellData, other: MatrixCellData): boolean {
  for (const key of Object.keys(one) as (keyof MatrixCellData)[]) if (one[key] !== other[key]) return false;
  return true;
}
