// Which rows and columns of the matrix are drawn: those in sight and the one that has the focus.
import { type RefObject, useCallback, useLayoutEffect, useMemo, useState } from "react";
import { type Drawn, drawnOf, inSight, reaching, type Span } from "@/kit/inSight";
import type { Place } from "@/pages/backends/moving";

interface Sizes {
  row: number;
  column: number;
  /** Of the heads, which stay in sight and cover what is below them. */
  head: number;
  side: number;
}

/** As the style says; what is really there is measured as soon as it is. */
const GUESSED: Sizes = { row: 64, column: 128, head: 60, side: 190 };
const SCREEN = { width: 1280, height: 800 };

interface Sight {
  rows: readonly Drawn[];
  columns: readonly Drawn[];
  sizes: Sizes;
  onScroll: () => void;
  /** Scrolls so far that a cell is seen whole. */
  reach: (place: Place) => void;
}

export function useSight(box: RefObject<HTMLDivElement | null>, count: Place, at: Place): Sight {
  const [sizes, setSizes] = useState(GUESSED);
  const [rows, setRows] = useState<Span>(() => inSight(0, SCREEN.height, GUESSED.row, count.row));
  const [columns, setColumns] = useState<Span>(() => inSight(0, SCREEN.width, GUESSED.column, count.column));
  const onScroll = useCallback(() => {
    const element = box.current;
    if (!element) return;
    const found = measured(element);
    const room = { width: element.clientWidth - found.side, height: element.clientHeight - found.head };
    setSizes((was) => (isSame(was, found) ? was : found));
    setRows(kept(inSight(element.scrollTop, room.height, found.row, count.row)));
    setColumns(kept(inSight(element.scrollLeft, room.width, found.column, count.column)));
  }, [box, count.row, count.column]);
  useLayoutEffect(() => {
    onScroll();
    const watcher = new ResizeObserver(onScroll);
    if (box.current) watcher.observe(box.current);
    return () => watcher.disconnect();
  }, [box, onScroll]);
  const reach = useCallback(
    ({ row, column }: Place) => {
      const element = box.current;
      if (!element) return;
      const size = measured(element);
      element.scrollTop = reaching(row, element.scrollTop, element.clientHeight - size.head, size.row);
      if (column < 0) return;
      element.scrollLeft = reaching(column, element.scrollLeft, element.clientWidth - size.side, size.column);
    },
    [box],
  );
  return {
    rows: useDrawn(rows, count.row, at.row),
    columns: useDrawn(columns, count.column, at.column),
    sizes,
    onScroll,
    reach,
  };
}

/** The same list for as long as the same are drawn, so that no row is drawn again when the focus moves in sight. */
function useDrawn(span: Span, count: number, at: number): readonly Drawn[] {
  const to = Math.min(span.to, count);
  const from = Math.min(span.from, to);
  const also = at >= from && at < to ? -1 : at;
  return useMemo(() => drawnOf({ from, to }, count, also), [from, to, count, also]);
}

function kept(found: Span): (was: Span) => Span {
  return (was) => (was.from === found.from && was.to === found.to ? was : found);
}

function measured(box: HTMLElement): Sizes {
  const width = (selector: string) => box.querySelector<HTMLElement>(selector)?.offsetWidth;
  const height = (selector: string) => box.querySelector<HTMLElement>(selector)?.offsetHeight;
  return {
    row: height("tr[data-backend]") || GUESSED.row,
    column: width("th[data-node]") || GUESSED.column,
    head: height("thead") || GUESSED.head,
    side: width(".backends-corner") || GUESSED.side,
  };
}

function isSame(one: Sizes, other: Sizes): boolean {
  return (Object.keys(one) as (keyof Sizes)[]).every((name) => one[name] === other[name]);
}
