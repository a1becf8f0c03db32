// What needs somebody, the gravest first. Pure: from what is known to sentences, each with the place to go to.
import type {
  InstalledBackendOut,
  IntentOut,
  LiveOut,
  NodeOut,
  OperationOut,
  RuleOut,
  UpgradeOut,
} from "@/api/schema";
import type { Tone } from "@/kit/status";
import { approvalNotes } from "@/pages/nodes/words";
import { clock, list, plural } from "@/text/format";
import { fault, subject, verb } from "@/text/operation";

export type Goal =
  | { page: "operation"; id: string }
  | { page: "operations" }
  | { page: "node"; name: string }
  | { page: "nodes"; status?: "pending" | "offline" | "unhealthy" }
  | { page: "backends"; show?: "drift" | "upgrades" }
  | { page: "model"; name: string };

export interface Item {
  key: string;
  tone: Extract<Tone, "bad" | "warn" | "busy">;
  title: string;
  detail?: string | undefined;
  goal?: Goal;
  /** What its link is called. */
  word?: string;
  /** A node that one click lets in. */
  approves?: Pick<NodeOut, "id" | "name" | "proposed_labels">;
}

export interface Known {
  degraded: readonly string[];
  nodes: readonly NodeOut[];
  operations: readonly OperationOut[];
  intents: readonly IntentOut[];
  installed: readonly InstalledBackendOut[];
  upgrades: Readonly<Record<string, UpgradeOut>>;
  rules: readonly RuleOut[];
  live: LiveOut | undefined;
}

/** More of one sort than this are said in one line. */
const EACH_UP_TO = 3;

export function attention(known: Known): Item[] {
  const items = [
    ...known.degraded.map(degraded),
    ...awaiting(known.nodes),
    ...failures(known.operations),
    ...absent(known.nodes),
    ...givenUp(known.intents),
    ...broken(known.live),
    ...unmet(known.rules),
    ...drifting(known.installed),
    ...upgradable(known.upgrades),
  ];
  const weights = { bad: 0, warn: 1, busy: 2 };
  return items.sort((one, other) => weights[one.tone] - weights[other.tone]);
}

function degraded(sentence: string): Item {
  return { key: `degraded ${sentence}`, tone: "bad", title: sentence };
}

function awaiting(nodes: readonly NodeOut[]): Item[] {
  const pending = nodes.filter((node) => node.status === "pending");
  const each = pending.slice(0, EACH_UP_TO).map(
    (node): Item => ({
      key: `pending ${node.id}`,
      tone: "warn",
      title: `${node.name} waits to be let in.`,
      detail: [hardware(node), ...approvalNotes(node)].filter(Boolean).join(" · "),
      goal: { page: "node", name: node.name },
      word: "Look at it",
      approves: node,
    }),
  );
  const rest = pending.length - each.length;
  if (rest > 0) {
    each.push({
      key: "pending",
      tone: "warn",
      title: `${plural(rest, "more node waits", "more nodes wait")} to be let in.`,
      goal: { page: "nodes", status: "pending" },
      word: "See them",
    });
  }
  return each;
}

function hardware(node: NodeOut): string {
  const gpus = node.gpus?.map((gpu) => gpu.name).join(", ");
  return [gpus, node.cpu_threads && `${node.cpu_threads} threads`, node.address].filter(Boolean).join(", ");
}

function failures(operations: readonly OperationOut[]): Item[] {
  const failed = operations.filter((operation) => operation.state === "failed");
  const each = failed.slice(0, EACH_UP_TO).map(
    (operation): Item => ({
      key: `failed ${operation.id}`,
      tone: "bad",
      title: `${verb(operation)} of ${subject(operation)}.`,
      detail: fault(operation) ?? operation.message,
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
      word: "See them",
    });
  }
  return each;
}

function absent(nodes: readonly NodeOut[]): Item[] {
  return (["unhealthy", "offline"] as const).flatMap((status): Item[] => {
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
          word: "See it",
        },
      ];
    }
    const named = away.slice(0, EACH_UP_TO).map((node) => node.name);
    const rest = away.length - named.length;
    return [
      {
        key: status,
        tone: "bad",
        title: `${away.length} nodes are ${status}.`,
        detail: list(rest > 0 ? [...named, `${rest} more`] : named),
        goal: { page: "nodes", status },
        word: "See them",
      },
    ];
  });
}

function givenUp(intents: readonly IntentOut[]): Item[] {
  const dead = intents.filter((intent) => intent.state === "dead");
  if (dead.length === 0) return [];
  const what = dead.slice(0, EACH_UP_TO).map((intent) => `${intent.backend} on ${intent.node_name}`);
  return [
    {
      key: "dead",
      tone: "bad",
      title: `${plural(dead.length, "thing that a node owes has", "things that nodes owe have")} been given up.`,
      detail: list(dead.length > what.length ? [...what, `${dead.length - what.length} more`] : what),
      goal: { page: "operations" },
      word: "Try again or drop",
    },
  ];
}

/** Replicas that requests are kept away from, because they fail. */
function broken(live: LiveOut | undefined): Item[] {
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
        title: `${model.name} keeps failing on ${list(nodes)}.`,
        detail: "Requests go to other replicas if there are any.",
        goal: { page: "model", name: model.name },
        word: "See it",
      } satisfies Item,
    ];
  });
}

function unmet(rules: readonly RuleOut[]): Item[] {
  return rules
    .filter((rule) => rule.unsatisfiable_until || rule.unsatisfiable_ticks > 0 || !rule.model_exists)
    .map((rule) => ({
      key: `rule ${rule.model}`,
      tone: "warn",
      title: rule.model_exists
        ? `The rule for ${rule.model} cannot be met.`
        : `There is a rule for ${rule.model}, and no such model.`,
      detail: rule.unsatisfiable_until
        ? `No node takes another replica of it; tried again after ${clock(rule.unsatisfiable_until)}.`
        : undefined,
      goal: { page: "model", name: rule.model },
      word: "See the rule",
    }));
}

function drifting(installed: readonly InstalledBackendOut[]): Item[] {
  const drift = installed.filter((backend) => backend.Nodes.some((node) => node.drifts));
  if (drift.length === 0) return [];
  return [
    {
      key: "drift",
      tone: "warn",
      title: `Nodes differ in what they have of ${list(drift.map((backend) => backend.Name))}.`,
      goal: { page: "backends", show: "drift" },
      word: "See where",
    },
  ];
}

/** Only what has nodes that are behind: nodes that merely differ are said above. */
function upgradable(upgrades: Readonly<Record<string, UpgradeOut>>): Item[] {
  const all = Object.values(upgrades).filter((upgrade) => (upgrade.nodes ?? []).length > 0);
  if (all.length === 0) return [];
  return [
    {
      key: "upgrades",
      tone: "busy",
      title: `Upgrades are available for ${list(all.map((upgrade) => upgrade.backend_name))}.`,
      detail: all
        .slice(0, EACH_UP_TO)
        .map((one) => (all.length === 1 ? one.summary : `${one.backend_name}: ${one.summary}`))
        .join(" "),
      goal: { page: "backends", show: "upgrades" },
      word: "See upgrades",
    },
  ];
}
