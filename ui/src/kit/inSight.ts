// Which of many things in a line, all of one size, are in sight: those are drawn, and room is kept for the others.

export interface Span {
  /** The first that is drawn, and the one after the last. */
  from: number;
  to: number;
}

/**
 * `start` is how far it was scrolled, `room` how much is seen. Some more on both sides are there before they are seen.
 * Steps of that many keep it the same while somebody scrolls a little.
 */
export function inSight(start: number, room: number, size: number, count: number, more = 4): Span {
  if (size <= 0) return { from: 0, to: count };
  const first = Math.floor(Math.max(0, start) / size);
  const last = Math.ceil((Math.max(0, start) + room) / size);
  const from = Math.floor(Math.max(0, first - more) / more) * more;
  const to = Math.ceil((last + more) / more) * more;
  return { from: Math.min(from, Math.max(0, count - 1)), to: Math.min(to, count) };
}

/** How far to scroll so that a thing is seen whole; as far as now if it is. */
export function reaching(place: number, start: number, room: number, size: number): number {
  const begin = place * size;
  if (begin < start) return begin;
  return begin + size > start + room ? begin + size - room : start;
}

/** Something that is drawn, or the room of so many that are not. */
export type Drawn = { place: number } | { from: number; skipped: number };

/** All in order, with one more that is drawn wherever it is: the one that has the focus. */
export function drawnOf({ from, to }: Span, count: number, also: number): Drawn[] {
  const places = Array.from({ length: to - from }, (_, place) => from + place);
  if (also >= 0 && also < count && (also < from || also >= to)) places.push(also);
  const drawn: Drawn[] = [];
  let next = 0;
  for (const place of places.sort((one, other) => one - other)) {
    if (place > next) drawn.push({ from: next, skipped: place - next });
    drawn.push({ place });
    next = place + 1;
  }
  if (count > next) drawn.push({ from: next, skipped: count - next });
  return drawn;
}
