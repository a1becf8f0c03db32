import { oneOf, text } from "@/text/search";

export const STATUSES = ["healthy", "pending", "draining", "unhealthy", "offline"] as const;
export const TABS = ["overview", "backends", "logs", "operations"] as const;

export function nodesSearch(search: Record<string, unknown>) {
  return {
    q: text(search, "q"),
    status: oneOf(search, "status", STATUSES),
    join: search.join === true ? true : undefined,
  };
}

export function nodeSearch(search: Record<string, unknown>) {
  return { tab: oneOf(search, "tab", TABS), log: text(search, "log") };
}
