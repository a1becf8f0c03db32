// Computes the similarity of vectors.

export function computeCosineSimilarity(a: number[], b: number[]): number {
  let dot = 0;
  let squaresA = 0;
  let squaresB = 0;
  for (let place = 0; place < a.length; place += 1) {
    const x = a[place] ?? 0;
    const y = b[place] ?? 0;
    dot += x * y;
    squaresA += x * x;
    squaresB += y * y;
  }
  return squaresA && squaresB ? dot / Math.sqrt(squaresA * squaresB) : 0;
}

/** Splits the input into texts, one per line, without empty lines. */
export function parseTexts(lines: string, max = 20): string[] {
  return lines
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .slice(0, max);
}
