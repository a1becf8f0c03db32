import { dropUndefined, parseChoice, parseText } from "@/text/search";

const VIEWS = ["installed", "catalog", "quantizations", "fine-tunings"] as const;
export const MODEL_TABS = ["overview", "configuration", "servers", "revisions", "files"] as const;

export function modelsSearch(search: Record<string, unknown>) {
  return dropUndefined({
    view: parseChoice(search, "view", VIEWS),
    q: parseText(search, "q"),
    entry: parseText(search, "entry"),
    tag: parseText(search, "tag"),
  });
}

export function modelSearch(search: Record<string, unknown>) {
  return dropUndefined({ tab: parseChoice(search, "tab", MODEL_TABS) });
}
