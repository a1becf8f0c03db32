// Queries and API calls of the models page.
import { queryOptions } from "@tanstack/react-query";
import { api, request, unwrapResponse } from "@/api/client";
import type {
  FileOut,
  FleetChangesOut,
  GalleryPageOut,
  ImportUriIn,
  LoadPlanOut,
  ModelOperationOut,
  ModelOut,
  ModelPlanOut,
  ModelServerOut,
  SavedModelOut,
} from "@/api/schema";
import { toFleetFile } from "@/pages/models/problems";

const named = (name: string) => ({ params: { path: { name } } });

// --- reading ---

export const modelQuery = (name: string) =>
  queryOptions({
    queryKey: ["models", "one", name] as const,
    queryFn: (): Promise<ModelOut> => unwrapResponse(api.GET("/api/models/config/{name}", named(name))),
  });

export const revisionsQuery = (name: string) =>
  queryOptions({
    queryKey: ["models", "revisions", name] as const,
    queryFn: () => unwrapResponse(api.GET("/api/models/revisions/{name}", named(name))),
  });

interface GalleryQuery {
  term: string;
  tag: string;
  page: number;
}
const PAGE_ITEMS = 24;

export const galleryQuery = ({ term, tag, page }: GalleryQuery) =>
  queryOptions({
    queryKey: ["models", "gallery", term, tag, page] as const,
    queryFn: (): Promise<GalleryPageOut> =>
      unwrapResponse(
        api.GET("/api/models", {
          params: { query: { term, tag, page, items: PAGE_ITEMS, collapse_variants: true } },
        }),
      ),
  });

/** One gallery entry by its id; in the list it may be on another page. */
export const entryQuery = (id: string) =>
  queryOptions({
    queryKey: ["models", "entry", id] as const,
    queryFn: async () => {
      const term = id.slice(id.indexOf("@") + 1);
      const found = await unwrapResponse(api.GET("/api/models", { params: { query: { term, items: 200 } } }));
      return found.models.find((entry) => entry.id === id) ?? null;
    },
  });

export const variantsQuery = (entry: string) =>
  queryOptions({
    queryKey: ["models", "variants", entry] as const,
    queryFn: () => unwrapResponse(api.GET("/api/models/variants/{name}", named(entry))),
  });

/** The node that the next replica would be placed on. Refetched when replicas or nodes change. */
export const loadPlanQuery = (model: string, nodes: string[] | null = null) =>
  queryOptions({
    queryKey: ["models", "plan", model, nodes] as const,
    queryFn: (): Promise<LoadPlanOut> =>
      unwrapResponse(api.POST("/api/plan", { body: { model, count: 1, ...(nodes ? { nodes } : {}) } })),
    staleTime: 0,
  });

/** The files of a model, with the libraries and nodes that hold them. */
export const filesQuery = (model: string) =>
  queryOptions({
    queryKey: ["files", model] as const,
    queryFn: async (): Promise<FileOut[]> =>
      (await unwrapResponse(api.GET("/api/files", { params: { query: { model } } }))).files,
  });

/** One MCP server of a model, as an agent node sees it now. Apart from "models": events about replicas call no server. */
export const serverQuery = (model: string, revision: number, server: string) =>
  queryOptions({
    queryKey: ["mcp servers", model, revision, server] as const,
    queryFn: async (): Promise<ModelServerOut> => {
      const path = { model };
      const found = await unwrapResponse(
        api.GET("/v1/mcp/servers/{model}", { params: { path, query: { server: [server] } } }),
      );
      const [one] = found.servers;
      if (!one) throw new Error(`${model} has no MCP server ${server} any more.`);
      return one;
    },
    staleTime: 60_000,
    retry: false,
  });

// --- installing ---

interface InstallRequest {
  entry: string;
  name: string;
  variant: string;
}

export const installPlanQuery = (spec: InstallRequest) =>
  queryOptions({
    queryKey: ["models", "install plan", spec] as const,
    queryFn: () => requestInstall(spec, true) as Promise<ModelPlanOut>,
    retry: false,
  });

export const installModel = (spec: InstallRequest) =>
  requestInstall(spec, false) as Promise<ModelOperationOut>;

function requestInstall({ entry, name, variant }: InstallRequest, plan: boolean) {
  return unwrapResponse(
    api.POST("/api/models/install/{name}", {
      params: { path: { name: entry }, query: { plan } },
      body: { name, variant, overrides: {} },
    }),
  );
}

export const planAddress = (spec: ImportUriIn) => importUri(spec, true) as Promise<ModelPlanOut>;
export const installAddress = (spec: ImportUriIn) => importUri(spec, false) as Promise<ModelOperationOut>;

async function importUri(spec: ImportUriIn, plan: boolean): Promise<unknown> {
  const answered = await request(`/models/import-uri?plan=${plan}&check=${plan}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(spec),
  });
  return answered.json();
}

// --- changing ---

/** Loads a model, queued behind active operations such as its installation. */
export const loadModel = (name: string, nodes: string[] | null) =>
  unwrapResponse(
    api.POST("/api/models/{name}/load", {
      params: { path: { name }, query: { after: true } },
      body: { count: 1, ...(nodes ? { nodes } : {}) },
    }),
  ) as Promise<ModelOperationOut>;

export const unloadModel = (name: string, nodes: string[] | null, force: boolean) =>
  unwrapResponse(
    api.POST("/api/models/{name}/unload", {
      params: { path: { name }, query: { after: true } },
      body: { force, delete_files: false, ...(nodes ? { nodes } : {}) },
    }),
  );

export const deleteModel = (name: string) =>
  unwrapResponse(api.POST("/api/models/delete/{name}", named(name)));

export const setEnabled = (name: string, enabled: boolean) =>
  unwrapResponse(
    api.PUT("/models/toggle-state/{name}/{action}", {
      params: { path: { name, action: enabled ? "enable" : "disable" } },
    }),
  );

export const setPinned = (name: string, pinned: boolean) =>
  unwrapResponse(
    api.PUT("/models/toggle-pinned/{name}/{action}", {
      params: { path: { name, action: pinned ? "pin" : "unpin" } },
    }),
  );

export const renameModel = (name: string, to: string) =>
  unwrapResponse(api.POST("/api/models/rename", { body: { names: { [name]: to } } }));

export const putRule = (name: string, body: Record<string, unknown>) =>
  unwrapResponse(api.PUT("/api/rules/{name}", { ...named(name), body }));

export const deleteRule = (name: string) => unwrapResponse(api.DELETE("/api/rules/{name}", named(name)));

// --- configurations ---

const YAML = { "Content-Type": "application/yaml" };

/** What saving would do; nothing is changed. */
export async function planConfig(text: string): Promise<FleetChangesOut> {
  const answered = await request("/api/fleet?plan=true", {
    method: "POST",
    headers: YAML,
    body: toFleetFile(text),
  });
  return (await answered.json()) as FleetChangesOut;
}

/** Saves a configuration. Refused with 409 if another user has saved since `revision`. */
export async function saveConfig(name: string, text: string, revision: number): Promise<SavedModelOut> {
  const answered = await request(`/api/models/config/${encodeURIComponent(name)}`, {
    method: "PUT",
    headers: { ...YAML, "If-Match": `"${revision}"` },
    body: text,
  });
  return (await answered.json()) as SavedModelOut;
}

export const rollBack = (name: string, to: number, revision: number) =>
  unwrapResponse(
    api.POST("/api/models/rollback/{name}", {
      params: { path: { name }, header: { "if-match": `"${revision}"` } },
      body: { revision: to },
    }),
  );
