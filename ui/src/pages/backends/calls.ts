// Queries of the backends page, besides the shared ones, and its API calls.
import { queryOptions } from "@tanstack/react-query";
import { api, request, unwrapResponse } from "@/api/client";
import type { BackendOperationOut, BackendPlanOut, CatalogEntryOut, StrategyIn } from "@/api/schema";
import type { BackendVerb } from "@/pages/backends/offers";

const PAGE_MAX = 500;

async function catalogPage(page: number) {
  return unwrapResponse(api.GET("/api/backends", { params: { query: { items: PAGE_MAX, page } } }));
}

/** The whole catalog: it is small, and filtering it in the page needs no request. */
export const catalog = queryOptions({
  queryKey: ["backends", "catalog"] as const,
  queryFn: async () => {
    const first = await catalogPage(1);
    const entries: CatalogEntryOut[] = [...first.backends];
    for (let page = 2; page <= first.totalPages; page += 1)
      entries.push(...(await catalogPage(page)).backends);
    return { entries, tags: first.allTags };
  },
});

export const assignments = queryOptions({
  queryKey: ["intents"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/backend-intents")),
});

export const useCases = queryOptions({
  queryKey: ["galleries", "usecases"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/backends/usecases")),
});

export const backendGalleries = queryOptions({
  queryKey: ["galleries", "backends"] as const,
  queryFn: () => unwrapResponse(api.GET("/api/backends/galleries")),
});

export interface ExternalSource {
  uri: string;
  name: string;
  sha256: string;
}

/** The body of a change. `nodes` null means every node that the backend can be installed on. */
export interface BackendChange {
  verb: BackendVerb;
  backend: string;
  nodes: string[] | null;
  version: string;
  ignoresHardware: boolean;
  strategy: StrategyIn;
  source: ExternalSource | null;
}

export const ALL_AT_ONCE: StrategyIn = { waves: [], stop_on_failure: false, rollback: false };

/** A change of one backend on the named nodes, all at once. */
export function makeSimpleChange(
  verb: BackendVerb,
  backend: string,
  nodes: string[] | null,
  version = "",
): BackendChange {
  return { verb, backend, nodes, version, ignoresHardware: false, strategy: ALL_AT_ONCE, source: null };
}

function makeBody(change: BackendChange): Record<string, unknown> {
  const common = { nodes: change.nodes, strategy: change.strategy };
  if (change.verb === "rollback" || change.verb === "delete") return common;
  const exact = { ...common, version: change.version, ignore_capability: change.ignoresHardware };
  return change.source ? { ...exact, ...change.source } : exact;
}

async function postChange<T>(change: BackendChange, query: string, signal?: AbortSignal): Promise<T> {
  const path = change.source ? "install-external" : `${change.verb}/${encodeURIComponent(change.backend)}`;
  const response = await request(`/api/backends/${path}${query}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(makeBody(change)),
    signal: signal ?? null,
  });
  return (await response.json()) as T;
}

/** Requests the change. With `waits` it is queued behind active operations instead of being refused. */
export function requestChange(change: BackendChange, waits = false): Promise<BackendOperationOut> {
  return postChange<BackendOperationOut>(change, waits ? "?after=true" : "");
}

/** The plan of a change. Refetched when backends or nodes change. */
export function planChange(change: BackendChange) {
  return queryOptions({
    queryKey: ["backends", "plan", change] as const,
    queryFn: ({ signal }) => postChange<BackendPlanOut>(change, "?plan=true", signal),
    retry: false,
    gcTime: 30_000,
  });
}

/** Retries an operation and returns the one that was started for it. */
export const retryOperation = (id: string) =>
  unwrapResponse(
    api.POST("/api/operations/{operation_id}/retry", { params: { path: { operation_id: id } } }),
  );

const makeAssignmentParams = (node: string, backend: string) => ({ params: { path: { node, backend } } });
export const discardAssignment = (node: string, backend: string) =>
  unwrapResponse(api.DELETE("/api/backend-intents/{node}/{backend}", makeAssignmentParams(node, backend)));
export const retryAssignment = (node: string, backend: string) =>
  unwrapResponse(
    api.POST("/api/backend-intents/{node}/{backend}/revive", makeAssignmentParams(node, backend)),
  );

export const checkUpgrades = () => unwrapResponse(api.POST("/api/backends/upgrades/check"));
export const upgradeAll = () => unwrapResponse(api.POST("/api/backends/upgrades/apply"));
