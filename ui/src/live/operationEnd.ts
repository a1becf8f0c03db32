// Waits for the end of an operation with the cache that the stream updates. There is no deadline: the server has one.
import { type QueryClient, QueryObserver } from "@tanstack/react-query";
import { Problem } from "@/api/client";
import { operation } from "@/api/queries";
import type { OperationDetailOut } from "@/api/schema";
import { pollWhenLost } from "@/live/connection";
import { isFinished } from "@/text/operationStates";
import { findStateWord } from "@/text/stateWords";

const HIDDEN_MS = 5000;

function waitForEnd(queries: QueryClient, id: string, signal?: AbortSignal): Promise<OperationDetailOut> {
  return new Promise((resolve, reject) => {
    const observer = new QueryObserver(queries, {
      ...operation(id),
      staleTime: 0,
      // A hidden tab has no stream, so it polls for the end.
      refetchInterval: () => (document.hidden ? HIDDEN_MS : pollWhenLost()),
      refetchIntervalInBackground: true,
    });
    const stop = observer.subscribe(({ data, error }) => {
      if (data && isFinished(data.state)) {
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

/** Waits for the end of an operation, and throws its error as a `Problem` if it failed or was cancelled. */
export async function waitForSuccess(
  queries: QueryClient,
  id: string,
  signal?: AbortSignal,
): Promise<OperationDetailOut> {
  const ended = await waitForEnd(queries, id, signal);
  if (ended.state === "failed" || ended.state === "cancelled") {
    throw new Problem(
      -1,
      ended.errorCode ?? ended.state,
      ended.error || ended.message || `The operation was ${findStateWord("operation", ended.state)}.`,
      null,
    );
  }
  return ended;
}
