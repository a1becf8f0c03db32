// What this page asks of the API: what it reads, and what it changes.
import { queryOptions } from "@tanstack/react-query";
import { answer, api, request } from "@/api/client";
import type {
  AskedModelOut,
  FileOut,
  FleetOut,
  GalleryPageOut,
  LoadPlanOut,
  ModelOut,
  ModelPlanOut,
  SavedOut,
  UriIn,
} from "@/api/schema";
import { asFleet } from "@/pages/models/problems";

const named = (name: string) => ({ params: { path: { name } } });

// --- reading ---

export const modelOf = (name: string) =>
  queryOptions({
    queryKey: ["models", "one", name] as const,
    queryFn: (): Promise<ModelOut> => answer(api.GET("/api/models/config/{name}", named(name))),
  });

export const revisionsOf = (name: string) =>
  queryOptions({
    queryKey: ["models", "revisions", name] as const,
    queryFn: () => answer(api.GET("/api/models/revisions/{name}", named(name))),
  });

export interface GalleryQuery {
  term: string;
  tag: string;
  page: number;
}
const PAGE_ITEMS = 24;

export const galleryOf = ({ term, tag, page }: GalleryQuery) =>
  queryOptions({
    queryKey: ["models", "gallery", term, tag, page] as const,
    queryFn: (): Promise<GalleryPageOut> =>
      answer(
        api.GET("/api/models", {
          params: { query: { term, tag, page, items: PAGE_ITEMS, collapse_variants: true } },
        }),
      ),
  });

/** One entry by its id; the list that shows it may be on another page. */
export const entryOf = (id: string) =>
  queryOptions({
    queryKey: ["models", "entry", id] as const,
    queryFn: async () => {
      const term = id.slice(id.indexOf("@") + 1);
      const found = await answer(api.GET("/api/models", { params: { query: { term, items: 200 } } }));
      return found.models.find((entry) => entry.id === id) ?? null;
    },
  });

export const variantsOf = (entry: string) =>
  queryOptions({
    queryKey: ["models", "variants", entry] as const,
    queryFn: () => answer(api.GET("/api/models/variants/{name}", named(entry))),
  });

/** Where the next replica would go. It moves with replicas and nodes, so it is read anew with them. */
export const planOf = (model: string, nodes: string[] | null = null) =>
  queryOptions({
    queryKey: ["models", "plan", model, nodes] as const,
    queryFn: (): Promise<LoadPlanOut> =>
      answer(api.POST("/api/plan", { body: { model, count: 1, ...(nodes ? { nodes } : {}) } })),
    staleTime: 0,
  });

/** Written by hand until the API's description has it: who else holds a content. */
export const filesOf = (model: string) =>
  queryOptions({
    queryKey: ["files", model] as const,
    queryFn: async (): Promise<FileOut[]> =>
      (await answer(api.GET("/api/files", { params: { query: { model } } }))).files,
  });

// --- installing ---

export interface Wish {
  entry: string;
  name: string;
  variant: string;
}

export const installPlanOf = (wish: Wish) =>
  queryOptions({
    queryKey: ["models", "install plan", wish] as const,
    queryFn: () => askInstall(wish, true) as Promise<ModelPlanOut>,
    retry: false,
  });

export const install = (wish: Wish) => askInstall(wish, false) as Promise<AskedModelOut>;

function askInstall({ entry, name, variant }: Wish, plan: boolean) {
  return answer(
    api.POST("/api/models/install/{name}", {
      params: { path: { name: entry }, query: { plan } },
      body: { name, variant, overrides: {} },
    }),
  );
}

export const planAddress = (wish: UriIn) => importUri(wish, true) as Promise<ModelPlanOut>;
export const installAddress = (wish: UriIn) => importUri(wish, false) as Promise<AskedModelOut>;

async function importUri(wish: UriIn, plan: boolean): Promise<unknown> {
  const answered = await request(`/models/import-uri?plan=${plan}&check=${plan}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(wish),
  });
  return answered.json();
}

// --- changing ---

/** Behind what is under way, as an installation. */
export const load = (name: string, nodes: string[] | null) =>
  answer(
    api.POST("/api/models/{name}/load", {
      params: { path: { name }, query: { after: true } },
      body: { count: 1, ...(nodes ? { nodes } : {}) },
    }),
  ) as Promise<AskedModelOut>;

export const unload = (name: string, nodes: string[] | null, force: boolean) =>
  answer(
    api.POST("/api/models/{name}/unload", {
      params: { path: { name }, query: { after: true } },
      body: { force, delete_files: false, ...(nodes ? { nodes } : {}) },
    }),
  );

export const remove = (name: string) => answer(api.POST("/api/models/delete/{name}", named(name)));

export const setEnabled = (name: string, enabled: boolean) =>
  answer(
    api.PUT("/models/toggle-state/{name}/{action}", {
      params: { path: { name, action: enabled ? "enable" : "disable" } },
    }),
  );

export const setPinned = (name: string, pinned: boolean) =>
  answer(
    api.PUT("/models/toggle-pinned/{name}/{action}", {
      params: { path: { name, action: pinned ? "pin" : "unpin" } },
    }),
  );

export const rename = (name: string, to: string) =>
  answer(api.POST("/api/models/rename", { body: { names: { [name]: to } } }));

export const putRule = (name: string, body: Record<string, unknown>) =>
  answer(api.PUT("/api/rules/{name}", { ...named(name), body }));

export const deleteRule = (name: string) => answer(api.DELETE("/api/rules/{name}", named(name)));

export const cancel = (id: string) =>
  answer(api.POST("/api/operations/{operation_id}/cancel", { params: { path: { operation_id: id } } }));

// --- configurations ---

const YAML = { "Content-Type": "application/yaml" };

/** What saving would do. Nothing is done. */
export async function planConfig(text: string): Promise<FleetOut> {
  const answered = await request("/api/fleet?plan=true", {
    method: "POST",
    headers: YAML,
    body: asFleet(text),
  });
  return (await answered.json()) as FleetOut;
}

/** Refused with 409 if somebody has saved since `revision`. */
export async function saveConfig(name: string, text: string, revision: number): Promise<SavedOut> {
  const answered = await request(`/api/models/config/${encodeURIComponent(name)}`, {
    method: "PUT",
    headers: { ...YAML, "If-Match": `"${revision}"` },
    body: text,
  });
  return (await answered.json()) as SavedOut;
}

export const rollBack = (name: string, to: number, revision: number) =>
  answer(
    api.POST("/api/models/rollback/{name}", {
      params: { path: { name }, header: { "if-match": `"${revision}"` } },
      body: { revision: to },
    }),
  );
