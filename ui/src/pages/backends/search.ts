import { dropUndefined, parseChoice, parseFlag, parseText } from "@/text/search";

const VIEWS = ["matrix", "catalog", "installed"] as const;
/** The filters of the matrix, and those of the list of installed backends. */
export const MATRIX_FILTERS = ["drift", "upgrades", "failed", "busy", "missing"] as const;
export const FILTERS = ["user", "updates", "offline"] as const;

export function backendsSearch(search: Record<string, unknown>) {
  return dropUndefined({
    view: parseChoice(search, "view", VIEWS),
    q: parseText(search, "q"),
    tag: parseText(search, "tag"),
    backend: parseText(search, "backend"),
    node: parseText(search, "node"),
    target: parseText(search, "target"),
    show: parseChoice(search, "show", MATRIX_FILTERS),
    filter: parseChoice(search, "filter", FILTERS),
    development: parseFlag(search, "development"),
    all: parseFlag(search, "all"),
  });
}
