import { flag, oneOf, said, text } from "@/text/search";

export const VIEWS = ["matrix", "catalog", "installed"] as const;
/** What the matrix shows only, and what the list of installed ones does. */
export const SHOWN = ["drift", "upgrades", "failed", "busy", "missing"] as const;
export const FILTERS = ["user", "updates", "offline"] as const;

export function backendsSearch(search: Record<string, unknown>) {
  return said({
    view: oneOf(search, "view", VIEWS),
    q: text(search, "q"),
    tag: text(search, "tag"),
    backend: text(search, "backend"),
    node: text(search, "node"),
    target: text(search, "target"),
    show: oneOf(search, "show", SHOWN),
    filter: oneOf(search, "filter", FILTERS),
    development: flag(search, "development"),
    all: flag(search, "all"),
  });
}

export type BackendsSearch = ReturnType<typeof backendsSearch>;
