// How alike vectors are.

export function cosine(a: number[], b: number[]): number {
  let dot = 0;
  let ofA = 0;
  let ofB = 0;
  for (let place = 0; place < a.length; place += 1) {
    const x = a[place] ?? 0;
    const y = b[place] ?? 0;
    dot += x * y;
    ofA += x * x;
    ofB += y * y;
  }
  return ofA && ofB ? dot / Math.sqrt(ofA * ofB) : 0;
}

/** One text a line; empty lines are none. */
export function textsOf(lines: string, max = 20): string[] {
  return lines
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .slice(0, max);
}
