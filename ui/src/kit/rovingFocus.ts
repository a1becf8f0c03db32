// Where a key leads among things in a line, of which one has the focus. Beyond an end it goes on at the other.

const KEYS = { across: ["ArrowLeft", "ArrowRight"], down: ["ArrowUp", "ArrowDown"] } as const;

/** The place that gets the focus; null: the key does not move it. Nothing has it: the place is -1. */
export function computeNextFocusIndex(
  place: number,
  key: string,
  count: number,
  way: keyof typeof KEYS,
): number | null {
  if (count === 0) return null;
  const [back, forth] = KEYS[way];
  if (key === forth) return (place + 1) % count;
  if (key === back) return (Math.max(place, 0) - 1 + count) % count;
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : null;
}
