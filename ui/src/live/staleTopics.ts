// Maps the kind of a registry event to the topics of queries that it makes stale. Pure.
import type { Topic } from "@/api/queries";
import { isFinished } from "@/text/operationStates";

const BY_KIND: Record<string, readonly Topic[]> = {
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

export function listStaleTopics(kind: string): readonly Topic[] {
  return BY_KIND[kind] ?? BY_PREFIX[kind.split(".", 1)[0] ?? ""] ?? [];
}

/** An operation that has ended has changed its backends, models or files, so all topics that show them are stale. */
export function listStaleTopicsAfterEnd(kind: string, state: string | undefined): readonly Topic[] {
  return kind === "operation.changed" && state !== undefined && isFinished(state)
    ? ["backends", "models", "nodes", "intents", "files", "live", "galleries"]
    : [];
}

/** Every kind of the outbox. EventSource delivers only events whose names it has a listener for. */
export const EVENT_KINDS = [
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
