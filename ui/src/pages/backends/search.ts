import { flag, oneOf, text } from "@/text/search";

export const VIEWS = ["matrix", "catalog", "installed"] as const;

export function backendsSearch(search: Record<string, unknown>) {
  return {
    view: oneOf(search, "view", VIEWS),
    q: text(search, "q"),
    backend: text(search, "backend"),
    target: text(search, "target"),
    development: flag(search, "development"),
    all: flag(search, "all"),
  };
}
