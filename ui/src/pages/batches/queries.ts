// Queries and API calls about batches and files, which are always the caller's own. A batch is a run, so what the
// stream says about runs makes batches and the files that they write stale.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, request, unwrapResponse } from "@/api/client";
import type { BatchIn, BatchOut, OpenAiFileOut } from "@/api/schema";
import { pollWhenLost } from "@/live/connection";
import { isOpenBatch } from "@/pages/batches/words";

const PAGE = 50;
/** The newest files; older ones are found by an API call. */
export const FILES_MAX = 500;
/** Answers are counted while a batch is open, and the stream does not announce each. */
const OPEN_POLL_MS = 3000;
/** Callers without the scope `operate` have no stream. */
const NO_STREAM_POLL_MS = 5000;

export const batchesQuery = (hasStream: boolean) =>
  infiniteQueryOptions({
    queryKey: ["runs", "batches"] as const,
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam }) =>
      unwrapResponse(
        api.GET("/v1/batches", {
          params: { query: { limit: PAGE, ...(pageParam ? { after: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => (page.has_more ? page.last_id : undefined) ?? undefined,
    refetchInterval: ({ state }) => {
      const isOpen = state.data?.pages.some((page) => page.data.some((batch) => isOpenBatch(batch.status)));
      if (isOpen) return OPEN_POLL_MS;
      return hasStream ? pollWhenLost() : NO_STREAM_POLL_MS;
    },
  });

export const filesQuery = (hasStream: boolean) =>
  queryOptions({
    queryKey: ["runs", "files"] as const,
    queryFn: async () =>
      (await unwrapResponse(api.GET("/v1/files", { params: { query: { limit: FILES_MAX } } }))).data,
    refetchInterval: hasStream ? pollWhenLost : NO_STREAM_POLL_MS,
  });

export const startBatch = (body: Pick<BatchIn, "input_file_id" | "endpoint">): Promise<BatchOut> =>
  unwrapResponse(api.POST("/v1/batches", { body: { completion_window: "24h", ...body } }));
export const cancelBatch = (batch_id: string) =>
  unwrapResponse(api.POST("/v1/batches/{batch_id}/cancel", { params: { path: { batch_id } } }));
export const deleteFile = (file_id: string) =>
  unwrapResponse(api.DELETE("/v1/files/{file_id}", { params: { path: { file_id } } }));

/** Uploads the input of batches. The browser streams the file from the disk; ends early with the signal. */
export async function uploadInput(file: File, signal: AbortSignal): Promise<OpenAiFileOut> {
  const form = new FormData();
  // The server judges the purpose before it reads the file.
  form.append("purpose", "batch");
  form.append("file", file);
  return await (await request("/v1/files", { method: "POST", body: form, signal })).json();
}

/** The address of the bytes of a file, which the browser saves. */
export const contentAddress = (fileId: string): string => `/v1/files/${encodeURIComponent(fileId)}/content`;
