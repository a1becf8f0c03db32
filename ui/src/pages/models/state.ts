// How a model is, in a word and a colour, and what can be done about it. Pure.
import type { LiveModel, LiveOut, ModelOut, OperationOut, RuleOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { plural } from "@/text/format";

export interface ModelState {
  tone: Tone;
  word: string;
  /** A sentence more, if the word does not say it all. */
  detail: string;
}

const ENDED = new Set(["completed", "completed_with_pending", "failed", "cancelled", "superseded"]);
const DOING: Record<string, string> = {
  model_install: "fetching files",
  model_load: "loading",
  model_stage: "copying files",
  model_unload: "unloading",
  model_delete: "being deleted",
};

/** Operations about this very model: a backend may have the same name. */
export function operationsOf(model: string, all: readonly OperationOut[] | undefined): OperationOut[] {
  return (all ?? []).filter((one) => !one.isBackend && one.kind in DOING && one.name === model);
}

export function underWay(model: string, all: readonly OperationOut[] | undefined): OperationOut[] {
  return operationsOf(model, all).filter((one) => !ENDED.has(one.state));
}

/** The failures that nobody has acknowledged: of each kind the last one, which says the most. */
export function failures(model: string, all: readonly OperationOut[] | undefined): OperationOut[] {
  const last = new Map<string, OperationOut>();
  for (const one of operationsOf(model, all)) {
    if (one.state !== "failed") continue;
    const before = last.get(one.kind);
    if (!before || before.createdAt <= one.createdAt) last.set(one.kind, one);
  }
  return [...last.values()];
}

/** This failure and those before it that nobody has acknowledged: who has seen the last one has seen them all. */
export function sameFailures(failed: OperationOut, all: readonly OperationOut[] | undefined): string[] {
  const others = operationsOf(failed.name, all).filter(
    (one) => one.state === "failed" && one.kind === failed.kind && one.createdAt <= failed.createdAt,
  );
  return [...new Set([failed.id, ...others.map((one) => one.id)])];
}

export function hasEnded(operation: Pick<OperationOut, "state">): boolean {
  return ENDED.has(operation.state);
}

/** A rule that was given up for a while, or whose last load has just failed. */
export function isUnmet(
  rule: RuleOut | undefined,
  model: ModelOut,
  failed: readonly OperationOut[],
  now: number,
): boolean {
  if (!rule || !model.enabled || (model.replicas ?? []).length > 0) return false;
  if (rule.unsatisfiable_until && Date.parse(rule.unsatisfiable_until) > now) return true;
  const wants = rule.spread_all || rule.min_replicas > 0;
  return wants && failed.some((one) => one.kind === "model_load");
}

export function loadedOn(model: ModelOut): string[] {
  const names = (model.replicas ?? [])
    .filter((replica) => replica.state === "loaded")
    .map((replica) => replica.node_name);
  return [...new Set(names)].sort();
}

/** What else is known of a model: what is under way, and whether its rule cannot be met. */
export interface Around {
  busy: readonly OperationOut[];
  isUnmet: boolean;
}

export function stateOf(model: ModelOut, { busy, isUnmet: cannot }: Around): ModelState {
  const loaded = (model.replicas ?? []).filter((replica) => replica.state === "loaded");
  const nodes = loadedOn(model);
  const first = busy[0];
  if (first?.kind === "model_delete") return { tone: "busy", word: "being deleted", detail: "" };
  if (!model.enabled) return { tone: "still", word: "disabled", detail: "It takes no requests." };
  if (loaded.length > 0) return { tone: "good", word: loadedWord(loaded.length, nodes.length), detail: "" };
  if (first) return { tone: "busy", word: DOING[first.kind] ?? "busy", detail: "" };
  const moving = model.replicas?.[0];
  if (moving) return { tone: "busy", word: moving.state, detail: "" };
  if (cannot) {
    const reason = model.load_error || "Its rule asks for more than there is room for.";
    return { tone: "warn", word: "cannot be met", detail: reason };
  }
  if (model.load_error) return { tone: "bad", word: "load failed", detail: model.load_error };
  if (model.files == null)
    return { tone: "still", word: "not fetched", detail: "Its files come with the first load." };
  return { tone: "still", word: "idle", detail: "It is loaded when somebody asks for it." };
}

function loadedWord(replicas: number, nodes: number): string {
  const on = `loaded on ${plural(nodes, "node")}`;
  return replicas > nodes ? `${plural(replicas, "replica")} ${on}` : on;
}

export function liveOf(model: string, live: LiveOut | undefined): LiveModel | undefined {
  return live?.models.find((one) => one.name === model);
}

/** Requests that an unload would have to wait for. */
export function inFlight(model: ModelOut, live: LiveOut | undefined, node?: string): number {
  const shown = liveOf(model.name, live);
  if (node !== undefined)
    return (shown?.replicas ?? [])
      .filter((replica) => replica.node === node)
      .reduce((sum, replica) => sum + replica.in_flight, 0);
  return shown?.in_flight ?? 0;
}

export type Action =
  | "load"
  | "unload"
  | "talk"
  | "logs"
  | "enable"
  | "disable"
  | "pin"
  | "unpin"
  | "edit"
  | "rename"
  | "delete";

/** What makes sense now, in the order in which it is shown. */
export function actionsFor(model: ModelOut, busy: readonly OperationOut[]): Action[] {
  const goes = busy.some((one) => one.kind === "model_delete");
  if (goes) return [];
  const runs = (model.replicas ?? []).length > 0;
  const offered: (Action | false)[] = [
    model.enabled && "load",
    runs && "unload",
    model.enabled && talks(model) && "talk",
    runs && "logs",
    model.enabled ? "disable" : "enable",
    model.pinned ? "unpin" : "pin",
    "edit",
    "rename",
    "delete",
  ];
  return offered.filter((action) => action !== false);
}

/** Whether one can have a conversation with it; if nobody said what it serves, it may be tried. */
export function talks(model: ModelOut): boolean {
  const serves = model.config.serves;
  return !Array.isArray(serves) || serves.length === 0 || serves.includes("chat");
}

/** Busy ones first, then loaded ones, then by name. */
export function ordered(models: readonly ModelOut[], live: LiveOut | undefined): ModelOut[] {
  const load = (model: ModelOut) => {
    const shown = liveOf(model.name, live);
    return (shown?.waiting ?? 0) + (shown?.in_flight ?? 0) > 0 ? 0 : (model.replicas ?? []).length ? 1 : 2;
  };
  return [...models].sort((one, other) => load(one) - load(other) || one.name.localeCompare(other.name));
}

export function matches(model: ModelOut, words: string): boolean {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const said = [model.name, model.backend, model.description, ...(model.aliases ?? []), model.gallery];
  const text = said.join(" ").toLowerCase();
  return wanted.every((word) => text.includes(word));
}
