// What an event of the registry makes old. Pure: from a kind to the topics that have to be read anew.
import type { Topic } from "@/api/queries";

const MADE_OLD: Record<string, readonly Topic[]> = {
  "node.backends_changed": ["nodes", "backends"],
  "operation.created": ["operations"],
  "operation.changed": ["operations", "record"],
  "operation.dismissed": ["operations", "record"],
  "operation.undismissed": ["operations", "record"],
  "operations.cleared": ["record"],
};
const BY_PREFIX: Record<string, readonly Topic[]> = {
  assignment: ["intents", "backends"],
  file: ["files"],
  gallery: ["galleries", "backends", "models"],
  key: ["keys"],
  leader: ["cluster"],
  model: ["models", "live"],
  node: ["nodes", "cluster", "models", "backends"],
  operation: ["operations"],
  replica: ["live", "models", "nodes"],
  rule: ["rules"],
  session: [],
  settings: ["settings"],
  token: ["tokens"],
  user: ["users"],
};

export function madeOld(kind: string): readonly Topic[] {
  return MADE_OLD[kind] ?? BY_PREFIX[kind.split(".", 1)[0] ?? ""] ?? [];
}

const ENDED = new Set(["completed", "completed_with_pending", "failed", "cancelled", "superseded"]);

export function hasEnded(state: string): boolean {
  return ENDED.has(state);
}

/** An operation that has ended has changed what it was about: all of it is read anew, whatever else begins now. */
export function madeOldByEnd(kind: string, state: string | undefined): readonly Topic[] {
  return kind === "operation.changed" && state !== undefined && ENDED.has(state)
    ? ["backends", "models", "nodes", "intents", "files", "live", "galleries"]
    : [];
}

/** Every kind of the outbox: the browser only hands over events that it was told the names of. */
export const KINDS = [
  "assignment.dead",
  "assignment.ended",
  "file.entered",
  "gallery.changed",
  "key.changed",
  "key.created",
  "key.revoked",
  "key.rotated",
  "leader.changed",
  "model.changed",
  "node.alive",
  "node.approved",
  "node.backends_changed",
  "node.budget_changed",
  "node.bus_changed",
  "node.drained",
  "node.hardware_changed",
  "node.labels_changed",
  "node.left",
  "node.lost",
  "node.registered",
  "node.removed",
  "node.resumed",
  "node.returned",
  "node.self_drained",
  "node.self_resumed",
  "node.slots_changed",
  "operation.changed",
  "operation.created",
  "operation.dismissed",
  "operation.undismissed",
  "operations.cleared",
  "replica.changed",
  "replica.removed",
  "rule.changed",
  "rule.setback",
  "session.closed",
  "session.opened",
  "settings.changed",
  "token.created",
  "token.revoked",
  "user.changed",
  "user.created",
  "user.removed",
] as const;
