// Cells that say the same are not drawn again, so that progress on one node costs one cell.
import type { Cell } from "@/pages/backends/fleet";

export function sameCell(one: Cell, other: Cell): boolean {
  for (const key of Object.keys(one) as (keyof Cell)[]) if (one[key] !== other[key]) return false;
  return true;
}
