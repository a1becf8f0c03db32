// Computes which item of a list gets the focus after an arrow key. Beyond one end it continues at the other.

const KEYS = { across: ["ArrowLeft", "ArrowRight"], down: ["ArrowUp", "ArrowDown"] } as const;

/** The index that gets the focus; null if the key does not move it. An index of -1 means that no item has the focus. */
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
