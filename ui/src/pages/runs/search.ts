import { dropUndefined, parseChoice, parseText } from "@/text/search";

export const RUN_KINDS = ["agent_turn", "task", "chat", "batch", "quantize"] as const;
export const RUN_STATES = [
  "open",
  "queued",
  "leased",
  "running",
  "waiting_approval",
  "completed",
  "failed",
  "cancelled",
  "lost",
] as const;

export function runsSearch(search: Record<string, unknown>) {
  return dropUndefined({
    state: parseChoice(search, "state", RUN_STATES),
    kind: parseChoice(search, "kind", RUN_KINDS),
    node: parseText(search, "node"),
    /** Whose runs: everybody's, which only admins may see; without it, those of the caller. */
    owner: parseChoice(search, "owner", ["everybody"] as const),
  });
}

export type RunsSearch = ReturnType<typeof runsSearch>;
