// Prepares a model before it can answer: describes the step, and installs a model from a gallery.
import type { QueryClient } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import { waitForSuccess } from "@/live/operationEnd";

export type SetupStep =
  | { kind: "installing"; operation: string }
  | { kind: "waiting" }
  | { kind: "answering" };

/** Installs a gallery's entry as a model and downloads its files, as `corral try` does. */
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
