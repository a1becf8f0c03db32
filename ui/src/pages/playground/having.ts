// Before a model can answer: what is being done, and how one that is only in a gallery is made.
import type { QueryClient } from "@tanstack/react-query";
import { answer, api } from "@/api/client";
import { succeeded } from "@/live/follow";

export type Step = { kind: "installing"; operation: string } | { kind: "waiting" } | { kind: "answering" };

/** What `corral try` does: make a model of a gallery's entry and fetch its files. */
export async function have(
  queries: QueryClient,
  entry: string,
  signal: AbortSignal,
  tell: (step: Step) => void,
): Promise<void> {
  const asked = await answer(
    api.POST("/api/models/install/{name}", { params: { path: { name: entry } }, body: {} as never }),
  );
  const id = (asked as { id?: string; jobID?: string }).id ?? (asked as { jobID?: string }).jobID;
  if (!id) return;
  tell({ kind: "installing", operation: id });
  await succeeded(queries, id, signal);
}
