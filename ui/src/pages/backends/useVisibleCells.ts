// Which rows and columns of the matrix are drawn: those in sight and the one that has the focus.
import { defaultRangeExtractor, type Range, useVirtualizer, type VirtualItem } from "@tanstack/react-virtual";
import { type RefObject, useCallback, useLayoutEffect, useMemo, useState } from "react";
import type { GridPosition } from "@/pages/backends/gridKeys";

// The sizes in the style sheet; rows and columns are measured as soon as they are rendered.
const ROW_HEIGHT = 64;
const COLUMN_WIDTH = 128;
const DEFAULT_HEADS = { width: 190, height: 60 };
const SCREEN = { width: 1280, height: 800 };
// The number of rows and columns rendered beyond each edge.
const OVERSCAN = 4;

/** A row or column that is rendered, or the size in pixels of a gap between two of them. */
export type RangeItem = { place: number } | { from: number; room: number };

interface VisibleCells {
  rows: readonly RangeItem[];
  columns: readonly RangeItem[];
  measureRow: (row: HTMLElement | null) => void;
  measureColumn: (head: HTMLElement | null) => void;
  /** Scrolls just far enough to show the whole of a cell. */
  scrollToCell: (place: GridPosition) => void;
}

export function useVisibleCells(
  box: RefObject<HTMLDivElement | null>,
  count: GridPosition,
  at: GridPosition,
): VisibleCells {
  const heads = useHeadSizes(box);
  const shared = { getScrollElement: () => box.current, initialRect: SCREEN, overscan: OVERSCAN };
  const rows = useVirtualizer<HTMLDivElement, HTMLElement>({
    ...shared,
    count: count.row,
    estimateSize: () => ROW_HEIGHT,
    rangeExtractor: useRangeWith(at.row),
    scrollMargin: heads.height,
    scrollPaddingStart: heads.height,
  });
  const columns = useVirtualizer<HTMLDivElement, HTMLElement>({
    ...shared,
    horizontal: true,
    count: count.column,
    estimateSize: () => COLUMN_WIDTH,
    rangeExtractor: useRangeWith(at.column),
    scrollMargin: heads.width,
    scrollPaddingStart: heads.width,
  });
  const scrollToCell = useCallback(
    ({ row, column }: GridPosition) => {
      rows.scrollToIndex(row);
      if (column >= 0) columns.scrollToIndex(column);
    },
    [rows, columns],
  );
  return {
    rows: useRangeItems(rows.getVirtualItems(), heads.height, rows.getTotalSize()),
    columns: useRangeItems(columns.getVirtualItems(), heads.width, columns.getTotalSize()),
    measureRow: rows.measureElement,
    measureColumn: columns.measureElement,
    scrollToCell,
  };
}

/** Returns the size of the corner: the heads of rows and columns stay in sight and cover what is below them. */
function useHeadSizes(box: RefObject<HTMLDivElement | null>): { width: number; height: number } {
  const [sizes, setSizes] = useState(DEFAULT_HEADS);
  useLayoutEffect(() => {
    const corner = box.current?.querySelector<HTMLElement>(".backends-corner");
    if (!corner) return;
    const measure = () => {
      const found = { width: corner.offsetWidth, height: corner.offsetHeight };
      setSizes((was) => (was.width === found.width && was.height === found.height ? was : found));
    };
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(corner);
    return () => watcher.disconnect();
  }, [box]);
  return sizes;
}

/** Returns a range extractor that always includes the index that has the focus. */
function useRangeWith(at: number): (range: Range) => number[] {
  return useCallback(
    (range) => {
      const places = defaultRangeExtractor(range);
      if (at < 0 || at >= range.count || places.includes(at)) return places;
      return [...places, at].sort((one, other) => one - other);
    },
    [at],
  );
}

/** Lists the rendered items and the gaps between them. Returns the same list while it is equal, to avoid rendering. */
function useRangeItems(drawn: readonly VirtualItem[], start: number, length: number): readonly RangeItem[] {
  const listed = JSON.stringify(listRangeItems(drawn, start, length));
  return useMemo(() => JSON.parse(listed) as RangeItem[], [listed]);
}

/** `start` is the offset of the first item, `length` the size of all items together. */
export function listRangeItems(
  drawn: readonly Pick<VirtualItem, "index" | "start" | "end">[],
  start: number,
  length: number,
): RangeItem[] {
  const items: RangeItem[] = [];
  let end = start;
  let next = 0;
  for (const one of drawn) {
    if (one.start > end) items.push({ from: next, room: one.start - end });
    items.push({ place: one.index });
    end = one.end;
    next = one.index + 1;
  }
  if (start + length > end) items.push({ from: next, room: start + length - end });
  return items;
}
