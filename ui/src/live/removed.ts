// Nodes that this page was told are removed: nothing is asked about them any more, and no list shows them.
import type { QueryClient } from "@tanstack/react-query";
import { nodes } from "@/api/queries";

/** The ids. One that is removed never comes back: whoever joins again gets another. */
const removed = new Set<string>();

/** Takes a node out of the list of nodes and ends the questions about it that are under way. */
export function forgetNode(cache: QueryClient, id: string): void {
  removed.add(id);
  cache.setQueryData(nodes.queryKey, (all) => all?.filter((node) => node.id !== id));
  void cache.cancelQueries({ predicate: (query) => query.queryKey.includes(id) });
}

/** Whether a question is not about a removed node: only such ones are asked again. */
export function mayBeAsked(query: { queryKey: readonly unknown[] }): boolean {
  return !query.queryKey.some((part) => typeof part === "string" && removed.has(part));
}
