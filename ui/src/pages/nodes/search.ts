import { dropUndefined, parseChoice, parseFlag, parseText } from "@/text/search";

export const STATUSES = ["healthy", "pending", "joining", "draining", "unhealthy", "offline"] as const;
export const NODE_KINDS = ["backend", "agent"] as const;
export const NODE_TABS = ["overview", "backends", "logs", "operations"] as const;

export function nodesSearch(search: Record<string, unknown>) {
  return dropUndefined({
    q: parseText(search, "q"),
    status: parseChoice(search, "status", STATUSES),
    kind: parseChoice(search, "kind", NODE_KINDS),
    join: parseFlag(search, "join"),
  });
}

export function nodeSearch(search: Record<string, unknown>) {
  return dropUndefined({ tab: parseChoice(search, "tab", NODE_TABS), log: parseText(search, "log") });
}
