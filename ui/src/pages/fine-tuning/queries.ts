// Queries and API calls about fine-tunings. A fine-tuning is a run, so what the stream says about runs makes them stale.
import { queryOptions } from "@tanstack/react-query";
import { api, request, unwrapResponse } from "@/api/client";
import type {
  CheckpointOut,
  DatasetOut,
  FineTuneExportIn,
  FineTuneIn,
  FineTuneOut,
  FineTunePointOut,
} from "@/api/schema";
import { pollWhenLost } from "@/live/connection";
import { isBusy } from "@/pages/fine-tuning/words";

/** Steps come between what the stream announces. */
const OPEN_POLL_MS = 1500;

export const fineTunesQuery = queryOptions({
  queryKey: ["runs", "fine-tunings"] as const,
  queryFn: async (): Promise<FineTuneOut[]> =>
    (await unwrapResponse(api.GET("/api/fine-tuning/jobs", { params: { query: { limit: 100 } } }))).jobs,
  refetchInterval: ({ state }) => (state.data?.some(isBusy) ? OPEN_POLL_MS : pollWhenLost()),
});

export const datasetsQuery = queryOptions({
  queryKey: ["datasets"] as const,
  queryFn: async (): Promise<DatasetOut[]> =>
    (await unwrapResponse(api.GET("/api/fine-tuning/datasets"))).datasets,
});

const at = (job_id: string) => ({ params: { path: { job_id } } });

/** The curve up to a step: another step is another query, so the last one is kept meanwhile. */
export const curveQuery = (id: string, step: number, status: string) =>
  queryOptions({
    queryKey: ["fine-tuning-curves", id, step, status] as const,
    queryFn: async (): Promise<FineTunePointOut[]> =>
      (await unwrapResponse(api.GET("/api/fine-tuning/jobs/{job_id}/curve", at(id)))).points,
    placeholderData: (previous: FineTunePointOut[] | undefined) => previous,
  });

export const checkpointsQuery = (id: string) =>
  queryOptions({
    queryKey: ["fine-tuning-checkpoints", id] as const,
    queryFn: async (): Promise<CheckpointOut[]> =>
      (await unwrapResponse(api.GET("/api/fine-tuning/jobs/{job_id}/checkpoints", at(id)))).checkpoints,
  });

export const startFineTuning = (body: FineTuneIn): Promise<FineTuneOut> =>
  unwrapResponse(api.POST("/api/fine-tuning/jobs", { body }));
export const stopFineTuning = (id: string) =>
  unwrapResponse(
    api.POST("/api/fine-tuning/jobs/{job_id}/stop", {
      params: { path: { job_id: id }, query: { save_checkpoint: true } },
    }),
  );
export const deleteFineTuning = (id: string) =>
  unwrapResponse(api.DELETE("/api/fine-tuning/jobs/{job_id}", at(id)));
export const exportFineTuning = (id: string, body: FineTuneExportIn) =>
  unwrapResponse(api.POST("/api/fine-tuning/jobs/{job_id}/export", { ...at(id), body }));

export async function uploadDataset(file: File): Promise<DatasetOut> {
  const form = new FormData();
  form.append("file", file);
  return await (await request("/api/fine-tuning/datasets", { method: "POST", body: form })).json();
}

/** The address of the newest checkpoint as an archive, which the browser saves. */
export const archiveAddress = (id: string): string =>
  `/api/fine-tuning/jobs/${encodeURIComponent(id)}/download`;
