// What this page reads beside the shared queries, and how it asks for changes.
import { queryOptions } from "@tanstack/react-query";
import { answer, api, request } from "@/api/client";
import type { AdmittedOut, CatalogEntryOut, PlanOut, StrategyIn } from "@/api/schema";
import type { Verb } from "@/pages/backends/offers";

const PAGE_MAX = 500;

async function catalogPage(page: number) {
  return answer(api.GET("/api/backends", { params: { query: { items: PAGE_MAX, page } } }));
}

/** The whole catalog: it is small, and filtering it here needs no waiting. */
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

export const intents = queryOptions({
  queryKey: ["intents"] as const,
  queryFn: () => answer(api.GET("/api/backend-intents")),
});

export const useCases = queryOptions({
  queryKey: ["galleries", "usecases"] as const,
  queryFn: () => answer(api.GET("/api/backends/usecases")),
});

export const galleries = queryOptions({
  queryKey: ["galleries", "backends"] as const,
  queryFn: () => answer(api.GET("/api/backends/galleries")),
});

export interface Source {
  uri: string;
  name: string;
  sha256: string;
}

/** A change as it is sent. `nodes` null: every node that may have it. */
export interface Wish {
  verb: Verb;
  backend: string;
  nodes: string[] | null;
  version: string;
  ignoresHardware: boolean;
  strategy: StrategyIn;
  source: Source | null;
}

export const AT_ONCE: StrategyIn = { waves: [], stop_on_failure: false, rollback: false };

/** One backend on named nodes, all at once. */
export function simply(verb: Verb, backend: string, nodes: string[] | null, version = ""): Wish {
  return { verb, backend, nodes, version, ignoresHardware: false, strategy: AT_ONCE, source: null };
}

function bodyOf(wish: Wish): Record<string, unknown> {
  const common = { nodes: wish.nodes, strategy: wish.strategy };
  if (wish.verb === "rollback" || wish.verb === "delete") return common;
  const exact = { ...common, version: wish.version, ignore_capability: wish.ignoresHardware };
  return wish.source ? { ...exact, ...wish.source } : exact;
}

async function post<T>(wish: Wish, query: string, signal?: AbortSignal): Promise<T> {
  const path = wish.source ? "install-external" : `${wish.verb}/${encodeURIComponent(wish.backend)}`;
  const response = await request(`/api/backends/${path}${query}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(bodyOf(wish)),
    signal: signal ?? null,
  });
  return (await response.json()) as T;
}

/** Does it. With `waits` it comes after what is under way there, instead of being refused. */
export function ask(wish: Wish, waits = false): Promise<AdmittedOut> {
  return post<AdmittedOut>(wish, waits ? "?after=true" : "");
}

/** What would be done. Read anew when backends or nodes change, like everything else. */
export function plan(wish: Wish) {
  return queryOptions({
    queryKey: ["backends", "plan", wish] as const,
    queryFn: ({ signal }) => post<PlanOut>(wish, "?plan=true", signal),
    retry: false,
    gcTime: 30_000,
  });
}

const byId = (id: string) => ({ params: { path: { operation_id: id } } });
export const cancel = (id: string) => answer(api.POST("/api/operations/{operation_id}/cancel", byId(id)));
export const retry = (id: string) => answer(api.POST("/api/operations/{operation_id}/retry", byId(id)));
export const dismiss = (id: string) => answer(api.POST("/api/operations/{operation_id}/dismiss", byId(id)));

const owed = (node: string, backend: string) => ({ params: { path: { node, backend } } });
export const drop = (node: string, backend: string) =>
  answer(api.DELETE("/api/backend-intents/{node}/{backend}", owed(node, backend)));
export const revive = (node: string, backend: string) =>
  answer(api.POST("/api/backend-intents/{node}/{backend}/revive", owed(node, backend)));

export const checkUpgrades = () => answer(api.POST("/api/backends/upgrades/check"));
export const upgradeAll = () => answer(api.POST("/api/backends/upgrades/apply"));
