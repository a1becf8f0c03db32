// Queries and API calls about collections of documents, which are always the caller's own.
import { queryOptions } from "@tanstack/react-query";
import { api, request, unwrapResponse } from "@/api/client";
import type { CollectionEntryOut, CollectionUploadOut } from "@/api/schema";

/** While documents are read their states change, and the stream does not announce each. */
const READING_POLL_MS = 2000;
/** Sources add entries by themselves. */
const IDLE_POLL_MS = 30_000;

export const isBeingRead = (entry: CollectionEntryOut): boolean =>
  entry.state === "queued" || entry.state === "reading";

export const collectionsQuery = queryOptions({
  queryKey: ["collections"] as const,
  queryFn: async () => (await unwrapResponse(api.GET("/api/agents/collections"))).items,
});

export const entriesQuery = (name: string) =>
  queryOptions({
    queryKey: ["collections", name, "entries"] as const,
    queryFn: () =>
      unwrapResponse(api.GET("/api/agents/collections/{name}/entries", { params: { path: { name } } })),
    refetchInterval: ({ state }) => (state.data?.items.some(isBeingRead) ? READING_POLL_MS : IDLE_POLL_MS),
  });

export const sourcesQuery = (name: string) =>
  queryOptions({
    queryKey: ["collections", name, "sources"] as const,
    queryFn: async () =>
      (
        await unwrapResponse(
          api.GET("/api/agents/collections/{name}/sources", { params: { path: { name } } }),
        )
      ).sources,
    refetchInterval: IDLE_POLL_MS,
  });

export const createCollection = (name: string, embedding_model: string, language: string) =>
  unwrapResponse(
    api.POST("/api/agents/collections", {
      body: { name, embedding_model, chunk_size: 400, chunk_overlap: 0, language },
    }),
  );
export const deleteCollection = (name: string) =>
  unwrapResponse(api.DELETE("/api/agents/collections/{name}", { params: { path: { name } } }));
export const deleteEntry = (name: string, entry: string) =>
  unwrapResponse(
    api.DELETE("/api/agents/collections/{name}/entry/delete", {
      params: { path: { name } },
      body: { entry },
    }),
  );
export const searchCollection = (name: string, query: string) =>
  unwrapResponse(
    api.POST("/api/agents/collections/{name}/search", {
      params: { path: { name } },
      body: { query, max_results: 5 },
    }),
  );
export const addSource = (name: string, url: string, update_interval: string) =>
  unwrapResponse(
    api.POST("/api/agents/collections/{name}/sources", {
      params: { path: { name } },
      body: { url, update_interval },
    }),
  );
export const deleteSource = (name: string, url: string) =>
  unwrapResponse(
    api.DELETE("/api/agents/collections/{name}/sources", { params: { path: { name } }, body: { url } }),
  );

/** Uploads a document. The browser streams the file from the disk. */
export async function uploadDocument(name: string, file: File): Promise<CollectionUploadOut> {
  const form = new FormData();
  form.append("file", file);
  const path = `/api/agents/collections/${encodeURIComponent(name)}/upload`;
  return await (await request(path, { method: "POST", body: form })).json();
}

/** The address of the file that an entry was made of, which the browser saves. */
export const rawAddress = (name: string, entry: string): string =>
  `/api/agents/collections/${encodeURIComponent(name)}/entries-raw/${entry.split("/").map(encodeURIComponent).join("/")}`;
