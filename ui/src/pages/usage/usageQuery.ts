// The query for usage: its period, grouping and steps. Usage is stored by the hour of UTC.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import type { UsageOut } from "@/api/schema";
import type { BY, SPANS } from "@/pages/usage/search";

export type UsageGrouping = (typeof BY)[number];
type UsageSpan = (typeof SPANS)[number];
export type UsageStep = "hour" | "day";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const DAYS: Record<Exclude<UsageSpan, "day">, number> = { week: 7, month: 30 };

export interface Period {
  step: UsageStep;
  /** The start times of all steps, oldest first, in milliseconds. The last step has not ended. */
  steps: number[];
}

/** 24 hours, or 7 or 30 days, up to the present one. */
export function makePeriod(span: UsageSpan, now: number): Period {
  const stepMs = span === "day" ? HOUR_MS : DAY_MS;
  const length = span === "day" ? 24 : DAYS[span];
  const last = Math.floor(now / stepMs) * stepMs;
  return {
    step: span === "day" ? "hour" : "day",
    steps: Array.from({ length }, (_, place) => last - (length - 1 - place) * stepMs),
  };
}

interface UsageQuery {
  by: string;
  from: string;
  mine: boolean;
}

export function makeAddress(question: UsageQuery, format?: "csv"): string {
  const query = new URLSearchParams({ by: question.by, from: question.from });
  if (format) query.set("format", format);
  return `${question.mine ? "/api/me/usage" : "/api/usage"}?${query.toString()}`;
}

/** Usage emits no events: it is read again when the page is opened, and on demand. */
export const usage = (question: UsageQuery) =>
  queryOptions({
    queryKey: ["usage", question] as const,
    queryFn: async () => {
      const params = { params: { query: { by: question.by, from: question.from } } };
      const call = question.mine ? api.GET("/api/me/usage", params) : api.GET("/api/usage", params);
      return (await unwrapResponse(call as Promise<{ data?: unknown; response: Response }>)) as UsageOut;
    },
    staleTime: 15_000,
    placeholderData: keepPreviousData,
  });
