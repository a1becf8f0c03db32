// Lists what needs a person, most urgent first: a sentence each, with the page to go to. Pure.
import type {
  AssignmentOut,
  BackendUpgradeOut,
  InstalledBackendOut,
  LiveOut,
  NodeOut,
  OperationOut,
  RuleOut,
} from "@/api/schema";
import type { Tone } from "@/kit/status";
import { approvalNotes } from "@/pages/nodes/words";
import { formatMoment, joinWords, plural } from "@/text/format";
import { describeFault, describeVerb, subject } from "@/text/operation";

export type PageLink =
  | { page: "operation"; id: string }
  | { page: "operations" }
  | { page: "node"; name: string }
  | { page: "nodes"; status?: "pending" | "offline" | "unhealthy" }
  | { page: "backends"; show?: "drift" | "upgrades" }
  | { page: "model"; name: string };

export interface AttentionItem {
  key: string;
  tone: Extract<Tone, "bad" | "warn" | "busy">;
  title: string;
  detail?: string | undefined;
  goal?: PageLink;
  /** The label of the link. */
  word?: string;
  /** A pending node that one click approves. */
  approves?: Pick<NodeOut, "id" | "name" | "proposed_labels">;
}

export interface AttentionInput {
  degraded: readonly string[];
  nodes: readonly NodeOut[];
  operations: readonly OperationOut[];
  assignments: readonly AssignmentOut[];
  installed: readonly InstalledBackendOut[];
  upgrades: Readonly<Record<string, BackendUpgradeOut>>;
  rules: readonly RuleOut[];
  live: LiveOut | undefined;
}

/** More items of one kind than this are summed up in one line. */
const LISTED_SINGLY_MAX = 3;

export function listAttentionItems(known: AttentionInput): AttentionItem[] {
  const items = [
    ...known.degraded.map(degraded),
    ...listPendingNodes(known.nodes),
    ...failures(known.operations),
    ...absent(known.nodes),
    ...listDeadAssignments(known.assignments),
    ...broken(known.live),
    ...unmet(known.rules),
    ...drifting(known.installed),
    ...upgradable(known.upgrades),
  ];
  const weights = { bad: 0, warn: 1, busy: 2 };
  return items.sort((one, other) => weights[one.tone] - weights[other.tone]);
}

function degraded(sentence: string): AttentionItem {
  return { key: `degraded ${sentence}`, tone: "bad", title: sentence };
}

function listPendingNodes(nodes: readonly NodeOut[]): AttentionItem[] {
  const pending = nodes.filter((node) => node.status === "pending");
  const each = pending.slice(0, LISTED_SINGLY_MAX).map(
    (node): AttentionItem => ({
      key: `pending ${node.id}`,
      tone: "warn",
      title: `${node.name} is waiting for approval.`,
      detail: [hardware(node), ...approvalNotes(node)].filter(Boolean).join(" · "),
      goal: { page: "node", name: node.name },
      word: "View",
      approves: node,
    }),
  );
  const rest = pending.length - each.length;
  if (rest > 0) {
    each.push({
      key: "pending",
      tone: "warn",
      title: `${plural(rest, "more node is", "more nodes are")} waiting for approval.`,
      goal: { page: "nodes", status: "pending" },
      word: "View all",
    });
  }
  return each;
}

function hardware(node: NodeOut): string {
  const gpus = node.gpus?.map((gpu) => gpu.name).join(", ");
  return [gpus, node.cpu_threads && `${node.cpu_threads} threads`, node.address].filter(Boolean).join(", ");
}

function failures(operations: readonly OperationOut[]): AttentionItem[] {
  const failed = operations.filter((operation) => operation.state === "failed");
  const each = failed.slice(0, LISTED_SINGLY_MAX).map(
    (operation): AttentionItem => ({
      key: `failed ${operation.id}`,
      tone: "bad",
      title: `${describeVerb(operation)} of ${subject(operation)}.`,
      detail: describeFault(operation) ?? operation.message,
      goal: { page: "operation", id: operation.id },
      word: "See why",
    }),
  );
  const rest = failed.length - each.length;
  if (rest > 0) {
    each.push({
      key: "failed",
      tone: "bad",
      title: `${plural(rest, "more operation has", "more operations have")} failed.`,
      goal: { page: "operations" },
      word: "View all",
    });
  }
  return each;
}

function absent(nodes: readonly NodeOut[]): AttentionItem[] {
  return (["unhealthy", "offline"] as const).flatMap((status): AttentionItem[] => {
    const away = nodes.filter((node) => node.status === status);
    const [first] = away;
    if (!first) return [];
    if (away.length === 1) {
      return [
        {
          key: status,
          tone: "bad",
          title: `${first.name} is ${status}.`,
          detail: first.status_reason,
          goal: { page: "node", name: first.name },
          word: "View",
        },
      ];
    }
    const named = away.slice(0, LISTED_SINGLY_MAX).map((node) => node.name);
    const rest = away.length - named.length;
    return [
      {
        key: status,
        tone: "bad",
        title: `${away.length} nodes are ${status}.`,
        detail: joinWords(rest > 0 ? [...named, `${rest} more`] : named),
        goal: { page: "nodes", status },
        word: "View all",
      },
    ];
  });
}

function listDeadAssignments(assignments: readonly AssignmentOut[]): AttentionItem[] {
  const dead = assignments.filter((assignment) => assignment.state === "dead");
  if (dead.length === 0) return [];
  const what = dead
    .slice(0, LISTED_SINGLY_MAX)
    .map((assignment) => `${assignment.backend} on ${assignment.node_name}`);
  return [
    {
      key: "dead",
      tone: "bad",
      title: `${plural(dead.length, "pending change", "pending changes")} failed too often and stopped.`,
      detail: joinWords(dead.length > what.length ? [...what, `${dead.length - what.length} more`] : what),
      goal: { page: "operations" },
      word: "Retry or discard",
    },
  ];
}

/** Replicas that requests are kept away from, because they fail. */
function broken(live: LiveOut | undefined): AttentionItem[] {
  return (live?.models ?? []).flatMap((model) => {
    const failing = model.replicas.filter(
      (replica) => replica.state === "failed" || (replica.breaker ?? "closed") !== "closed",
    );
    if (failing.length === 0) return [];
    const nodes = [...new Set(failing.map((replica) => replica.node))];
    return [
      {
        key: `broken ${model.name}`,
        tone: "bad",
        title: `${model.name} keeps failing on ${joinWords(nodes)}.`,
        detail: "Requests are routed to other replicas, if available.",
        goal: { page: "model", name: model.name },
        word: "View",
      } satisfies AttentionItem,
    ];
  });
}

function unmet(rules: readonly RuleOut[]): AttentionItem[] {
  return rules
    .filter((rule) => rule.unsatisfiable_until || rule.unsatisfiable_ticks > 0 || !rule.model_exists)
    .map((rule) => ({
      key: `rule ${rule.model}`,
      tone: "warn",
      title: rule.model_exists
        ? `The rule for ${rule.model} cannot be satisfied.`
        : `A rule exists for ${rule.model}, but the model does not.`,
      detail: rule.unsatisfiable_until
        ? `No node can take another replica. Next attempt after ${formatMoment(rule.unsatisfiable_until)}.`
        : undefined,
      goal: { page: "model", name: rule.model },
      word: "See the rule",
    }));
}

function drifting(installed: readonly InstalledBackendOut[]): AttentionItem[] {
  const drift = installed.filter((backend) => backend.Nodes.some((node) => node.drifts));
  if (drift.length === 0) return [];
  return [
    {
      key: "drift",
      tone: "warn",
      title: `Versions of ${joinWords(drift.map((backend) => backend.Name))} differ between nodes.`,
      goal: { page: "backends", show: "drift" },
      word: "See where",
    },
  ];
}

/** Only backends with nodes that are behind; nodes that merely differ are listed above. */
function upgradable(upgrades: Readonly<Record<string, BackendUpgradeOut>>): AttentionItem[] {
  const all = Object.values(upgrades).filter((upgrade) => (upgrade.nodes ?? []).length > 0);
  if (all.length === 0) return [];
  return [
    {
      key: "upgrades",
      tone: "busy",
      title: `Upgrades are available for ${joinWords(all.map((upgrade) => upgrade.backend_name))}.`,
      detail: all
        .slice(0, LISTED_SINGLY_MAX)
        .map((one) => (all.length === 1 ? one.summary : `${one.backend_name}: ${one.summary}`))
        .join(" "),
      goal: { page: "backends", show: "upgrades" },
      word: "See upgrades",
    },
  ];
}
