// Computes the state of a model as a word and a colour, and the actions that it offers. Pure.
import type { LiveModelOut, LiveOut, ModelOut, OperationOut, RuleOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { plural } from "@/text/format";
import { isFinished } from "@/text/operationStates";
import { findStateWord } from "@/text/stateWords";

interface ModelState {
  tone: Tone;
  word: string;
  /** A further sentence, if the word alone is not enough. */
  detail: string;
}

const DOING: Record<string, string> = {
  model_install: "downloading",
  model_load: "loading",
  model_stage: "staging",
  model_unload: "unloading",
  model_delete: "deleting",
};

/** The operations about this model; a backend may have the same name. */
export function listOperations(model: string, all: readonly OperationOut[] | undefined): OperationOut[] {
  return (all ?? []).filter((one) => !one.isBackend && one.kind in DOING && one.name === model);
}

export function listActiveOperations(
  model: string,
  all: readonly OperationOut[] | undefined,
): OperationOut[] {
  return listOperations(model, all).filter((one) => !isFinished(one.state));
}

/** The failures that were not dismissed: the last one of each kind, which tells the most. */
export function listFailures(model: string, all: readonly OperationOut[] | undefined): OperationOut[] {
  const last = new Map<string, OperationOut>();
  for (const one of listOperations(model, all)) {
    if (one.state !== "failed") continue;
    const before = last.get(one.kind);
    if (!before || before.createdAt <= one.createdAt) last.set(one.kind, one);
  }
  return [...last.values()];
}

/** The ids of this failure and of earlier ones of its kind, which are dismissed together. */
export function listSameFailures(failed: OperationOut, all: readonly OperationOut[] | undefined): string[] {
  const others = listOperations(failed.name, all).filter(
    (one) => one.state === "failed" && one.kind === failed.kind && one.createdAt <= failed.createdAt,
  );
  return [...new Set([failed.id, ...others.map((one) => one.id)])];
}

/** Whether a rule is in its backoff, or its last load has just failed. */
export function isRuleUnmet(
  rule: RuleOut | undefined,
  model: ModelOut,
  failed: readonly OperationOut[],
  now: number,
): boolean {
  if (!rule || !model.enabled || (model.replicas ?? []).length > 0) return false;
  if (rule.unsatisfiable_until && Date.parse(rule.unsatisfiable_until) > now) return true;
  const needsReplicas = rule.spread_all || rule.min_replicas > 0;
  return needsReplicas && failed.some((one) => one.kind === "model_load");
}

function listLoadedNodes(model: ModelOut): string[] {
  const names = (model.replicas ?? [])
    .filter((replica) => replica.state === "loaded")
    .map((replica) => replica.node_name);
  return [...new Set(names)].sort();
}

/** Further facts about a model: its active operations, and whether its rule cannot be met. */
interface ModelContext {
  busy: readonly OperationOut[];
  isUnmet: boolean;
}

export function describeModelState(model: ModelOut, { busy, isUnmet: cannot }: ModelContext): ModelState {
  const loaded = (model.replicas ?? []).filter((replica) => replica.state === "loaded");
  const nodes = listLoadedNodes(model);
  const first = busy[0];
  if (first?.kind === "model_delete") return { tone: "busy", word: "deleting", detail: "" };
  if (!model.enabled) return { tone: "still", word: "disabled", detail: "Rejects requests." };
  if (loaded.length > 0) return { tone: "good", word: loadedWord(loaded.length, nodes.length), detail: "" };
  if (first) return { tone: "busy", word: DOING[first.kind] ?? "busy", detail: "" };
  const moving = model.replicas?.[0];
  if (moving) return { tone: "busy", word: findStateWord("replica", moving.state), detail: "" };
  if (cannot) {
    const reason = model.load_error || "Not enough room for its rule.";
    return { tone: "warn", word: "rule not satisfied", detail: reason };
  }
  if (model.load_error) return { tone: "bad", word: "load failed", detail: model.load_error };
  if (model.files == null)
    return { tone: "still", word: "not downloaded", detail: "Files are downloaded on the first load." };
  return { tone: "still", word: "idle", detail: "Loads on the first request." };
}

function loadedWord(replicas: number, nodes: number): string {
  const on = `loaded on ${plural(nodes, "node")}`;
  return replicas > nodes ? `${plural(replicas, "replica")} ${on}` : on;
}

export function findLiveModel(model: string, live: LiveOut | undefined): LiveModelOut | undefined {
  return live?.models.find((one) => one.name === model);
}

/** The number of requests that an unload would have to wait for. */
export function countInFlight(model: ModelOut, live: LiveOut | undefined, node?: string): number {
  const shown = findLiveModel(model.name, live);
  if (node !== undefined)
    return (shown?.replicas ?? [])
      .filter((replica) => replica.node === node)
      .reduce((sum, replica) => sum + replica.in_flight, 0);
  return shown?.in_flight ?? 0;
}

export type ModelAction =
  | "load"
  | "unload"
  | "talk"
  | "logs"
  | "enable"
  | "disable"
  | "pin"
  | "unpin"
  | "edit"
  | "quantize"
  | "rename"
  | "delete";

/** The actions that are possible now, in the order in which they are shown. */
export function listActions(model: ModelOut, busy: readonly OperationOut[]): ModelAction[] {
  const goes = busy.some((one) => one.kind === "model_delete");
  if (goes) return [];
  const runs = (model.replicas ?? []).length > 0;
  const offered: (ModelAction | false)[] = [
    model.enabled && "load",
    runs && "unload",
    model.enabled && canChat(model) && "talk",
    runs && "logs",
    model.enabled ? "disable" : "enable",
    model.pinned ? "unpin" : "pin",
    "edit",
    hasGguf(model) && "quantize",
    "rename",
    "delete",
  ];
  return offered.filter((action) => action !== false);
}

/** Whether a file of the model is one that can be quantised. */
const hasGguf = (model: ModelOut): boolean =>
  (model.files ?? []).some((file) => file.path.toLowerCase().endsWith(".gguf"));

/** Whether the model can chat; true if it does not say which calls it serves. */
function canChat(model: ModelOut): boolean {
  const serves = model.config.serves;
  return !Array.isArray(serves) || serves.length === 0 || serves.includes("chat");
}

/** Sorts busy models first, then loaded ones, then by name. */
export function sortModels(models: readonly ModelOut[], live: LiveOut | undefined): ModelOut[] {
  const load = (model: ModelOut) => {
    const shown = findLiveModel(model.name, live);
    return (shown?.waiting ?? 0) + (shown?.in_flight ?? 0) > 0 ? 0 : (model.replicas ?? []).length ? 1 : 2;
  };
  return [...models].sort((one, other) => load(one) - load(other) || one.name.localeCompare(other.name));
}

export function matches(model: ModelOut, words: string): boolean {
  const searched = words.toLowerCase().split(/\s+/).filter(Boolean);
  const fields = [model.name, model.backend, model.description, ...(model.aliases ?? []), model.gallery];
  const text = fields.join(" ").toLowerCase();
  return searched.every((word) => text.includes(word));
}
