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
  agent: ["agents"],
  assignment: ["intents", "backends"],
  file: ["files"],
  gallery: ["galleries", "backends", "models"],
  key: ["keys"],
  leader: ["cluster"],
  mcp_server: ["mcp-servers"],
  model: ["models", "live"],
  node: ["nodes", "cluster", "models", "backends"],
  operation: ["operations"],
  replica: ["live", "models", "nodes"],
  rule: ["rules"],
  secret: ["secrets"],
  session: [],
  settings: ["settings"],
  skill: ["skills"],
  skill_repo: ["skills"],
  task: ["tasks"],
  token: ["tokens"],
  user: ["users"],
};

const RUNS: readonly Topic[] = ["runs"];

/** `operation` is the kind of the operation that the event is about. That of a run is in no list of operations. */
export function listStaleTopics(kind: string, operation?: string): readonly Topic[] {
  if (isRun(operation)) return RUNS;
  return BY_KIND[kind] ?? BY_PREFIX[kind.split(".", 1)[0] ?? ""] ?? [];
}

/** An operation that has ended has changed its backends, models or files, so all topics that show them are stale. */
export function listStaleTopicsAfterEnd(
  kind: string,
  state: string | undefined,
  operation?: string,
): readonly Topic[] {
  return kind === "operation.changed" && state !== undefined && isFinished(state) && !isRun(operation)
    ? ["backends", "models", "nodes", "intents", "files", "live", "galleries"]
    : [];
}

function isRun(operation: string | undefined): boolean {
  return operation?.startsWith("run_") ?? false;
}

/** Every kind of the outbox. EventSource delivers only events whose names it has a listener for. */
export const EVENT_KINDS = [
  "agent.changed",
  "agent.created",
  "agent.deleted",
  "assignment.dead",
  "assignment.ended",
  "file.entered",
  "gallery.changed",
  "key.changed",
  "key.created",
  "key.revoked",
  "key.rotated",
  "leader.changed",
  "mcp_server.changed",
  "mcp_server.deleted",
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
  "secret.changed",
  "secret.deleted",
  "session.closed",
  "session.opened",
  "settings.changed",
  "skill.changed",
  "skill.deleted",
  "skill_repo.changed",
  "skill_repo.deleted",
  "task.changed",
  "task.created",
  "task.deleted",
  "token.created",
  "token.revoked",
  "user.changed",
  "user.created",
  "user.removed",
] as const;
