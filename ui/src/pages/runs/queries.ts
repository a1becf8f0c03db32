// Queries and API calls about runs. Admins may read, cancel and decide about the runs of everybody.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { RunOut } from "@/api/schema";
import { pollWhenLost } from "@/live/connection";
import type { RunsSearch } from "@/pages/runs/search";
import { isOpenRun } from "@/text/run";

const PAGE = 50;
/** The stream announces the beginning and the end of a run; what happens in between is polled while one is open. */
const OPEN_POLL_MS = 3000;
/** Callers without the scope `operate` have no stream. */
const NO_STREAM_POLL_MS = 5000;

export interface RunsView extends RunsSearch {
  isAdmin: boolean;
  hasStream: boolean;
}

export const runsQuery = ({ isAdmin, hasStream, ...filter }: RunsView) =>
  infiniteQueryOptions({
    queryKey: ["runs", "pages", filter, isAdmin] as const,
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam }) =>
      unwrapResponse(
        api.GET("/api/runs", {
          params: {
            query: {
              limit: PAGE,
              ...(pageParam ? { before: pageParam } : {}),
              ...(filter.state ? { state: filter.state } : {}),
              ...(filter.kind ? { kind: filter.kind } : {}),
              ...(filter.node ? { node: filter.node } : {}),
              ...(isAdmin && filter.owner === "everybody" ? { all_users: true } : {}),
            },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: ({ state }) => {
      const isOpen = state.data?.pages.some((page) => page.runs.some((run) => isOpenRun(run.state)));
      if (isOpen) return OPEN_POLL_MS;
      return hasStream ? pollWhenLost() : NO_STREAM_POLL_MS;
    },
  });

export const runQuery = (id: string, isAdmin: boolean) =>
  queryOptions({
    queryKey: ["runs", "one", id] as const,
    queryFn: () => unwrapResponse(api.GET("/api/runs/{run_id}", at(id, isAdmin))),
    refetchInterval: ({ state }) =>
      state.data && isOpenRun(state.data.state) ? OPEN_POLL_MS : pollWhenLost(),
  });

const at = (run_id: string, isAdmin: boolean) => ({
  params: { path: { run_id }, ...(isAdmin ? { query: { all_users: true } } : {}) },
});

export const cancelRun = (id: string, isAdmin: boolean) =>
  unwrapResponse(api.POST("/api/runs/{run_id}/cancel", at(id, isAdmin)));
export const deleteRun = (id: string, isAdmin: boolean) =>
  unwrapResponse(api.DELETE("/api/runs/{run_id}", at(id, isAdmin)));

export interface CallDecision {
  callId: string;
  approved: boolean;
  reason: string;
}

export const decideCall = (
  run: string,
  { callId, approved, reason }: CallDecision,
  isAdmin: boolean,
): Promise<RunOut> =>
  unwrapResponse(
    api.POST("/api/runs/{run_id}/calls/{call_id}", {
      params: {
        path: { run_id: run, call_id: callId },
        ...(isAdmin ? { query: { all_users: true } } : {}),
      },
      body: { approved, reason },
    }),
  );

/** The address of the stream of a run's trace. */
export const traceAddress = (id: string, isAdmin: boolean): string =>
  `/api/runs/${encodeURIComponent(id)}/events${isAdmin ? "?all_users=true" : ""}`;
