// Converts the form of a key to the body of a request. A change contains only the fields that differ.
import type { KeyIn, KeyOut, KeyPatch, LimitOut } from "@/api/schema";

export const LIMIT_MEASURES = [
  "requests_per_minute",
  "tokens_per_minute",
  "tokens_per_day",
  "tokens_per_month",
] as const;
export type LimitMeasure = (typeof LIMIT_MEASURES)[number];

/** One row of limits as typed. An empty model means all models together. */
export interface LimitLine {
  id: number;
  model: string;
  amounts: Record<LimitMeasure, string>;
}

export interface KeyForm {
  name: string;
  scope: string;
  user: string;
  models: string;
  limits: LimitLine[];
  /** Seconds from now, "never", or "unchanged". */
  ends: string;
}

export const UNCHANGED = "unchanged";
export const NEVER_EXPIRES = "never";
const DAY_S = 86_400;
export const LIFETIMES = [
  { value: NEVER_EXPIRES, label: "never" },
  { value: String(DAY_S), label: "in 1 day" },
  { value: String(7 * DAY_S), label: "in 7 days" },
  { value: String(30 * DAY_S), label: "in 30 days" },
  { value: String(90 * DAY_S), label: "in 90 days" },
  { value: String(365 * DAY_S), label: "in 365 days" },
] as const;

export const SCOPES = [
  { value: "infer", label: "infer: use models" },
  { value: "operate", label: "operate: also manage the cluster" },
  { value: "admin", label: "admin: also manage keys and users" },
] as const;

const NOTHING: Record<LimitMeasure, string> = {
  requests_per_minute: "",
  tokens_per_minute: "",
  tokens_per_day: "",
  tokens_per_month: "",
};

export function makeEmptyLine(id: number): LimitLine {
  return { id, model: "", amounts: { ...NOTHING } };
}

export function makeForm(key: KeyOut | null): KeyForm {
  if (!key) {
    return {
      name: "",
      scope: "infer",
      user: "",
      models: "",
      limits: [makeEmptyLine(0)],
      ends: NEVER_EXPIRES,
    };
  }
  const lines = (key.limits ?? []).map((limit, id) => makeLine(limit, id));
  const hasAll = lines.some((line) => line.model === "");
  return {
    name: key.name,
    scope: key.scope ?? "admin",
    user: key.user_name ?? "",
    models: (key.models ?? []).join("\n"),
    limits: hasAll ? lines : [makeEmptyLine(lines.length), ...lines],
    ends: UNCHANGED,
  };
}

function makeLine(limit: LimitOut, id: number): LimitLine {
  const amounts = { ...NOTHING };
  for (const measure of LIMIT_MEASURES) amounts[measure] = limit[measure]?.toString() ?? "";
  return { id, model: limit.model ?? "", amounts };
}

/** Parses patterns, one per line or separated by commas; none means every model. */
export function parsePatterns(text: string): string[] | null {
  const found = [
    ...new Set(
      text
        .split(/[\n,]/)
        .map((word) => word.trim())
        .filter(Boolean),
    ),
  ];
  return found.length > 0 ? found : null;
}

export function makeLimits(lines: LimitLine[]): LimitOut[] {
  return lines
    .map((line) => {
      const limit: LimitOut = { model: line.model.trim() };
      for (const measure of LIMIT_MEASURES) {
        if (line.amounts[measure].trim() !== "") limit[measure] = Number(line.amounts[measure]);
      }
      return limit;
    })
    .filter((limit) => LIMIT_MEASURES.some((measure) => limit[measure] != null));
}

/** The problem with the form as a sentence; null if it is valid. */
export function findFault(form: KeyForm): string | null {
  const models = makeLimits(form.limits).map((limit) => limit.model ?? "");
  const twice = models.find((model, place) => models.indexOf(model) !== place);
  if (twice !== undefined) {
    return `${twice === "" ? "“All models”" : twice} has two sets of limits. Remove one.`;
  }
  return null;
}

const seconds = (ends: string) => (ends === NEVER_EXPIRES ? null : Number(ends));

export function makeKeyBody(form: KeyForm): KeyIn {
  return {
    name: form.name.trim(),
    scope: form.scope as KeyIn["scope"],
    user: form.user || null,
    models: parsePatterns(form.models),
    limits: makeLimits(form.limits),
    expires_in_s: seconds(form.ends),
  };
}

export function makeKeyPatch(before: KeyOut, form: KeyForm): Partial<KeyPatch> {
  const patch: Partial<KeyPatch> = {};
  const was = makeKeyBody(makeForm(before));
  const now = makeKeyBody(form);
  if (now.name !== was.name) patch.name = now.name;
  if (now.scope !== was.scope) patch.scope = now.scope as KeyPatch["scope"];
  if (JSON.stringify(now.models) !== JSON.stringify(was.models)) patch.models = now.models;
  if (JSON.stringify(now.limits) !== JSON.stringify(was.limits)) patch.limits = now.limits ?? [];
  if (form.ends !== UNCHANGED) patch.expires_in_s = seconds(form.ends);
  return patch;
}
