// Computes which cell of a grid gets the focus after a key. Column -1 is the head of a row.
export interface GridPosition {
  row: number;
  column: number;
}

const PAGE = 10;

export function movePosition(
  at: GridPosition,
  key: string,
  withControl: boolean,
  rows: number,
  columns: number,
): GridPosition | null {
  const last = { row: rows - 1, column: columns - 1 };
  const to: Record<string, GridPosition> = {
    ArrowUp: { ...at, row: at.row - 1 },
    ArrowDown: { ...at, row: at.row + 1 },
    ArrowLeft: { ...at, column: at.column - 1 },
    ArrowRight: { ...at, column: at.column + 1 },
    PageUp: { ...at, column: at.column - PAGE },
    PageDown: { ...at, column: at.column + PAGE },
    Home: withControl ? { row: 0, column: 0 } : { ...at, column: -1 },
    End: withControl ? last : { ...at, column: last.column },
  };
  const place = to[key];
  if (!place) return null;
  return {
    row: Math.min(Math.max(place.row, 0), last.row),
    column: Math.min(Math.max(place.column, -1), last.column),
  };
}
