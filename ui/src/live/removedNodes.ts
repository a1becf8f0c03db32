// The nodes that were removed while the page is open. They are not queried any more, and no list shows them.
import type { QueryClient } from "@tanstack/react-query";
import { nodes } from "@/api/queries";

/** The ids of removed nodes. A machine that joins again gets a new id, so an id never leaves this set. */
const removed = new Set<string>();

/** Removes a node from the cached list of nodes and cancels the queries about it. */
export function forgetNode(cache: QueryClient, id: string): void {
  removed.add(id);
  cache.setQueryData(nodes.queryKey, (all) => all?.filter((node) => node.id !== id));
  void cache.cancelQueries({ predicate: (query) => query.queryKey.includes(id) });
}

/** Whether a query is about no removed node, and may be refetched. */
export function isQueryAllowed(query: { queryKey: readonly unknown[] }): boolean {
  return !query.queryKey.some((part) => typeof part === "string" && removed.has(part));
}
