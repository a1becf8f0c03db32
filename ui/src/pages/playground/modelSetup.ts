// Before a model can answer: what is being done, and how one that is only in a gallery is made.
import type { QueryClient } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import { waitForSuccess } from "@/live/operationEnd";

export type SetupStep =
  | { kind: "installing"; operation: string }
  | { kind: "waiting" }
  | { kind: "answering" };

/** What `corral try` does: make a model of a gallery's entry and fetch its files. */
export async function ensureModel(
  queries: QueryClient,
  entry: string,
  signal: AbortSignal,
  tell: (step: SetupStep) => void,
): Promise<void> {
  const operation = await unwrapResponse(
    api.POST("/api/models/install/{name}", { params: { path: { name: entry } }, body: {} as never }),
  );
  const id = (operation as { id?: string; jobID?: string }).id ?? (operation as { jobID?: string }).jobID;
  if (!id) return;
  tell({ kind: "installing", operation: id });
  await waitForSuccess(queries, id, signal);
}
