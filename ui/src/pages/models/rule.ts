// Converts a rule between the server's form, the fields of the form, and a sentence.
import type { RuleOut } from "@/api/schema";
import { duration, joinWords, plural } from "@/text/format";

export interface WindowDraft {
  /** The React key: windows have no name of their own. */
  key: number;
  cron: string;
  duration: string;
  min: string;
  max: string;
}

export interface RuleDraft {
  mode: "range" | "everywhere";
  min: string;
  max: string;
  selector: string;
  windows: WindowDraft[];
  timeZone: string;
  /** Empty: least_wait, for which the API has no name in a rule. */
  routing: string;
}

export const NEW_RULE: RuleDraft = {
  mode: "range",
  min: "1",
  max: "",
  selector: "",
  windows: [],
  timeZone: "UTC",
  routing: "",
};

/** What can be chosen. prefix_cache has no effect yet, so only a rule that has it already shows it. */
export function routingOptions(current: string): { value: string; text: string }[] {
  const options = [
    { value: "", text: "Least expected wait" },
    { value: "round_robin", text: "In turn (round_robin)" },
  ];
  const isListed = options.some((option) => option.value === current);
  return isListed ? options : [...options, { value: current, text: `${current} (no effect yet)` }];
}

interface Window {
  cron?: unknown;
  duration?: unknown;
  min_replicas?: unknown;
  max_replicas?: unknown;
}

function selectorText(selector: Record<string, string>): string {
  return Object.entries(selector)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");
}

export function makeDraft(rule: RuleOut | undefined): RuleDraft {
  if (!rule) return NEW_RULE;
  return {
    mode: rule.spread_all ? "everywhere" : "range",
    min: rule.spread_all ? "" : String(rule.min_replicas),
    max: rule.max_replicas ? String(rule.max_replicas) : "",
    selector: selectorText(rule.selector),
    windows: (rule.windows ?? []).map((window: Window, key) => ({
      key,
      cron: String(window.cron ?? ""),
      duration: durationText(window.duration),
      min: window.min_replicas == null ? "" : String(window.min_replicas),
      max: window.max_replicas == null ? "" : String(window.max_replicas),
    })),
    timeZone: rule.time_zone,
    routing: rule.route_policy ?? "",
  };
}

/** Formats a duration as users type it: `10h`, `90m`, `45s`. */
function durationText(value: unknown): string {
  if (typeof value !== "number") return String(value ?? "");
  if (value % 3600 === 0) return `${value / 3600}h`;
  return value % 60 === 0 ? `${value / 60}m` : `${value}s`;
}

/** The body of the request. Invalid numbers are sent as typed, and the server refuses them with a sentence. */
export function makeRuleBody(draft: RuleDraft): Record<string, unknown> {
  const range = {
    ...(draft.min.trim() ? { min_replicas: number(draft.min) } : {}),
    ...(draft.max.trim() ? { max_replicas: number(draft.max) } : {}),
  };
  return {
    selector: draft.selector.trim(),
    ...(draft.mode === "everywhere" ? { replicas: "all" } : range),
    windows: draft.windows.map((window) => ({
      cron: window.cron.trim(),
      ...(window.duration.trim() ? { duration: number(window.duration) } : {}),
      ...(window.min.trim() ? { min_replicas: number(window.min) } : {}),
      ...(window.max.trim() ? { max_replicas: number(window.max) } : {}),
    })),
    ...(draft.timeZone.trim() ? { time_zone: draft.timeZone.trim() } : {}),
    route_policy: draft.routing,
  };
}

function number(text: string): number | string {
  const trimmed = text.trim();
  return /^\d{1,9}$/.test(trimmed) ? Number(trimmed) : trimmed;
}

export function ruleSentence(rule: RuleOut): string {
  const where = Object.keys(rule.selector).length ? ` on nodes with ${selectorText(rule.selector)}` : "";
  if (rule.spread_all)
    return where
      ? `One replica on every node with ${selectorText(rule.selector)}.`
      : "One replica on every node.";
  const { min_replicas: min, max_replicas: max } = rule;
  if (max && min === max) return `Always ${plural(min, "replica")}${where}.`;
  if (max) return `${min} to ${plural(max, "replica")}${where}.`;
  if (min) return `At least ${plural(min, "replica")}${where}.`;
  return where ? `Only${where}.` : "Replicas on demand.";
}

export function windowSentence(window: Window): string {
  const lasts =
    typeof window.duration === "number" ? duration(window.duration) : String(window.duration ?? "");
  const counts = [
    window.min_replicas ? `at least ${window.min_replicas}` : "",
    window.max_replicas ? `at most ${window.max_replicas}` : "",
  ].filter(Boolean);
  return `At ${String(window.cron ?? "")} for ${lasts}: ${counts.length ? joinWords(counts) : "no change"}.`;
}
