import { oneOf, said, text } from "@/text/search";

export const VIEWS = ["installed", "catalog"] as const;
export const TABS = ["overview", "configuration", "revisions", "files"] as const;

export function modelsSearch(search: Record<string, unknown>) {
  return said({
    view: oneOf(search, "view", VIEWS),
    q: text(search, "q"),
    entry: text(search, "entry"),
    tag: text(search, "tag"),
  });
}

export function modelSearch(search: Record<string, unknown>) {
  return said({ tab: oneOf(search, "tab", TABS) });
}
