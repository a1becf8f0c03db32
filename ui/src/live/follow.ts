// Waits for the end of an operation, as the stream tells it. There is no deadline: an operation ends when it ends.
import { type QueryClient, QueryObserver } from "@tanstack/react-query";
import { Problem } from "@/api/client";
import { operation } from "@/api/queries";
import type { OperationInFull } from "@/api/schema";
import { hasEnded } from "@/live/changes";
import { pollWhenLost } from "@/live/connection";

const HIDDEN_MS = 5000;

export function followed(queries: QueryClient, id: string, signal?: AbortSignal): Promise<OperationInFull> {
  return new Promise((resolve, reject) => {
    const observer = new QueryObserver(queries, {
      ...operation(id),
      staleTime: 0,
      // A hidden tab does not follow the stream, and what somebody waits for goes on there.
      refetchInterval: () => (document.hidden ? HIDDEN_MS : pollWhenLost()),
      refetchIntervalInBackground: true,
    });
    const stop = observer.subscribe(({ data, error }) => {
      if (data && hasEnded(data.state)) {
        stop();
        resolve(data);
      } else if (error instanceof Problem && error.status === 404) {
        stop();
        reject(error);
      }
    });
    signal?.addEventListener("abort", () => {
      stop();
      reject(signal.reason);
    });
  });
}

/** The same, and a failure is thrown with the operation's own words. */
export async function succeeded(
  queries: QueryClient,
  id: string,
  signal?: AbortSignal,
): Promise<OperationInFull> {
  const ended = await followed(queries, id, signal);
  if (ended.state === "failed" || ended.state === "cancelled") {
    throw new Problem(
      -1,
      ended.errorCode ?? ended.state,
      ended.error || ended.message || `It was ${ended.state}.`,
      null,
    );
  }
  return ended;
}
