import { flag, oneOf, said, text } from "@/text/search";

export const STATUSES = ["healthy", "pending", "joining", "draining", "unhealthy", "offline"] as const;
export const KINDS = ["backend", "agent"] as const;
export const TABS = ["overview", "backends", "logs", "operations"] as const;

export function nodesSearch(search: Record<string, unknown>) {
  return said({
    q: text(search, "q"),
    status: oneOf(search, "status", STATUSES),
    kind: oneOf(search, "kind", KINDS),
    join: flag(search, "join"),
  });
}

export function nodeSearch(search: Record<string, unknown>) {
  return said({ tab: oneOf(search, "tab", TABS), log: text(search, "log") });
}
