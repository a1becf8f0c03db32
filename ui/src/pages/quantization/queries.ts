// Queries and API calls about quantisations. A quantisation is a run, so what the stream says about runs makes them stale.
import { queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { QuantizationIn, QuantizationOut, QuantizationPlanOut } from "@/api/schema";
import { pollWhenLost } from "@/live/connection";
import { isOpen } from "@/pages/quantization/words";

/** The percentage of an open job moves between what the stream announces. */
const OPEN_POLL_MS = 1500;

export const quantizationsQuery = queryOptions({
  queryKey: ["runs", "quantizations"] as const,
  queryFn: async (): Promise<QuantizationOut[]> =>
    (await unwrapResponse(api.GET("/api/quantization/jobs", { params: { query: { limit: 100 } } }))).jobs,
  refetchInterval: ({ state }) => (state.data?.some(isOpen) ? OPEN_POLL_MS : pollWhenLost()),
});

export const quantizationPlanQuery = (model: string) =>
  queryOptions({
    queryKey: ["models", "quantization", model] as const,
    queryFn: (): Promise<QuantizationPlanOut> =>
      unwrapResponse(api.GET("/api/quantization/plan", { params: { query: { model } } })),
  });

const at = (job_id: string) => ({ params: { path: { job_id } } });

export const startQuantization = (body: QuantizationIn): Promise<QuantizationOut> =>
  unwrapResponse(api.POST("/api/quantization/jobs", { body }));
export const stopQuantization = (id: string) =>
  unwrapResponse(api.POST("/api/quantization/jobs/{job_id}/stop", at(id)));
export const deleteQuantization = (id: string) =>
  unwrapResponse(api.DELETE("/api/quantization/jobs/{job_id}", at(id)));
export const registerQuantization = (id: string, name: string) =>
  unwrapResponse(api.POST("/api/quantization/jobs/{job_id}/import", { ...at(id), body: { name } }));

/** The address of the bytes of a result, which the browser saves. */
export const resultAddress = (id: string): string =>
  `/api/quantization/jobs/${encodeURIComponent(id)}/download`;
