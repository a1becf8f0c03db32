// Queries and API calls about tasks and jobs. Admins may read and change those of everybody, and run only their own.
// A job is a run, so what the stream says about runs makes jobs stale.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { JobIn, JobOut, TaskIn, TaskOut } from "@/api/schema";
import { pollWhenLost } from "@/live/connection";
import type { JobsSearch } from "@/pages/tasks/search";
import { isOpenJob } from "@/text/job";

/** The most that the server lists. */
export const JOBS_MAX = 200;
/** The stream announces the beginning and the end of a job; its node and its webhooks are polled until they are settled. */
const OPEN_POLL_MS = 3000;
/** Callers without the scope `operate` have no stream. */
const NO_STREAM_POLL_MS = 5000;

const SCHEDULE_POLL_MS = 60_000;

export interface Caller {
  isAdmin: boolean;
  hasStream: boolean;
}

const everybody = (isChosen: boolean) => (isChosen ? { query: { all_users: true } } : {});
const atTask = (task_id: string, isAdmin: boolean) => ({
  params: { path: { task_id }, ...everybody(isAdmin) },
});
const atJob = (job_id: string, isAdmin: boolean) => ({ params: { path: { job_id }, ...everybody(isAdmin) } });

/** `isEverybody` lists the tasks of all users; only admins may. */
export const tasksQuery = (isEverybody: boolean, hasStream: boolean) =>
  queryOptions({
    queryKey: ["tasks", "all", isEverybody] as const,
    queryFn: () => unwrapResponse(api.GET("/api/agent/tasks", { params: everybody(isEverybody) })),
    refetchInterval: hasStream ? pollWhenLost : NO_STREAM_POLL_MS,
  });

export const taskQuery = (id: string, { isAdmin, hasStream }: Caller) =>
  queryOptions({
    queryKey: ["tasks", "one", id] as const,
    queryFn: () => unwrapResponse(api.GET("/api/agent/tasks/{task_id}", atTask(id, isAdmin))),
    refetchInterval: hasStream ? pollWhenLost : NO_STREAM_POLL_MS,
  });

export const createTask = (body: TaskIn) => unwrapResponse(api.POST("/api/agent/tasks", { body }));
export const changeTask = (id: string, body: TaskIn, isAdmin: boolean) =>
  unwrapResponse(api.PUT("/api/agent/tasks/{task_id}", { ...atTask(id, isAdmin), body }));
export const deleteTask = (id: string, isAdmin: boolean) =>
  unwrapResponse(api.DELETE("/api/agent/tasks/{task_id}", atTask(id, isAdmin)));
export const setTaskEnabled = (id: string, isEnabled: boolean, isAdmin: boolean): Promise<TaskOut> =>
  isEnabled
    ? unwrapResponse(api.POST("/api/agent/tasks/{task_id}/enable", atTask(id, isAdmin)))
    : unwrapResponse(api.POST("/api/agent/tasks/{task_id}/disable", atTask(id, isAdmin)));
export const readWebhookSecret = (id: string) =>
  unwrapResponse(api.GET("/api/agent/tasks/{task_id}/webhook-secret", { params: { path: { task_id: id } } }));

export const startJob = (body: JobIn) => unwrapResponse(api.POST("/api/agent/jobs/execute", { body }));

/** What a cron pattern means, and its next times. They pass, so they are read again. */
export const scheduleQuery = (cron: string, timeZone: string) =>
  queryOptions({
    queryKey: ["tasks", "schedule", cron, timeZone] as const,
    queryFn: () =>
      unwrapResponse(api.GET("/api/agent/schedule", { params: { query: { cron, time_zone: timeZone } } })),
    placeholderData: keepPreviousData,
    refetchInterval: SCHEDULE_POLL_MS,
    retry: false,
  });

const isSettled = (job: JobOut): boolean =>
  !isOpenJob(job.status) && !(job.webhooks ?? []).some((webhook) => webhook.state === "pending");

export const jobsQuery = (filter: JobsSearch, limit: number, { isAdmin, hasStream }: Caller) =>
  queryOptions({
    queryKey: ["runs", "jobs", filter, limit, isAdmin] as const,
    placeholderData: keepPreviousData,
    queryFn: () =>
      unwrapResponse(
        api.GET("/api/agent/jobs", {
          params: {
            query: {
              limit,
              ...(filter.task ? { task_id: filter.task } : {}),
              ...(filter.status ? { status: filter.status } : {}),
              ...(isAdmin && filter.owner === "everybody" ? { all_users: true } : {}),
            },
          },
        }),
      ),
    refetchInterval: ({ state }) => {
      if (state.data?.some((job) => !isSettled(job))) return OPEN_POLL_MS;
      return hasStream ? pollWhenLost() : NO_STREAM_POLL_MS;
    },
  });

export const jobQuery = (id: string, isAdmin: boolean) =>
  queryOptions({
    queryKey: ["runs", "job", id] as const,
    queryFn: () => unwrapResponse(api.GET("/api/agent/jobs/{job_id}", atJob(id, isAdmin))),
    refetchInterval: ({ state }) => (state.data && !isSettled(state.data) ? OPEN_POLL_MS : pollWhenLost()),
  });

export const cancelJob = (id: string, isAdmin: boolean) =>
  unwrapResponse(api.POST("/api/agent/jobs/{job_id}/cancel", atJob(id, isAdmin)));
export const deleteJob = (id: string, isAdmin: boolean) =>
  unwrapResponse(api.DELETE("/api/agent/jobs/{job_id}", atJob(id, isAdmin)));
