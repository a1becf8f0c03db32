// Refetches queries after a change, also those whose first fetch is still in flight.
import type { Query, QueryClient, QueryFilters } from "@tanstack/react-query";
import { isQueryAllowed } from "@/live/removedNodes";

const awaited = new WeakSet<Query>();

/**
 * Refetch the queries with this key, or all, except those about removed nodes; mark those that no component uses as stale.
 * A fetch in flight may have begun before the change: it is started again if the query has data; a first fetch is
 * completed and then repeated.
 */
export function refetchQueries(cache: QueryClient, queryKey: readonly string[] = []): void {
  const filters: QueryFilters = { queryKey, predicate: isQueryAllowed };
  const first = cache
    .getQueryCache()
    .findAll(filters)
    .filter((query) => query.state.data === undefined && query.promise && query.state.fetchStatus !== "idle");
  void cache.invalidateQueries(filters, { cancelRefetch: true });
  for (const query of first) {
    if (awaited.has(query)) continue;
    awaited.add(query);
    const repeat = () => {
      awaited.delete(query);
      void cache.invalidateQueries({ ...filters, queryKey: query.queryKey, exact: true });
    };
    query.promise?.then(repeat, () => awaited.delete(query));
  }
}
