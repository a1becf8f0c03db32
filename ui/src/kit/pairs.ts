// Rows of names and values in a form: headers, variables, labels. Pure.

export interface Pair {
  id: number;
  name: string;
  value: string;
}

/** An id that no row of a list has. */
export const nextId = (rows: readonly { id: number }[]): number =>
  Math.max(0, ...rows.map((row) => row.id)) + 1;

export const makePairs = (values: Readonly<Record<string, string>> | undefined): Pair[] =>
  Object.entries(values ?? {}).map(([name, value], id) => ({ id, name, value }));

/** The rows as an object. A row without a name and a value is left out. */
export function readPairs(pairs: readonly Pair[]): Record<string, string> {
  const filled = pairs.filter((pair) => pair.name.trim() !== "" || pair.value !== "");
  return Object.fromEntries(filled.map((pair) => [pair.name.trim(), pair.value]));
}

/** The problem with the rows as a sentence; null if there is none. */
export function findPairFault(pairs: readonly Pair[], noun: string): string | null {
  const filled = pairs.filter((pair) => pair.name.trim() !== "" || pair.value !== "");
  const names = filled.map((pair) => pair.name.trim());
  if (names.includes("")) return `A ${noun} needs a name.`;
  const twice = names.find((name, place) => names.indexOf(name) !== place);
  return twice === undefined ? null : `${twice} stands there twice. Remove one.`;
}
