// What a form says about a key, and what is asked of the API for it. A change names only what differs.
import type { KeyIn, KeyOut, KeyPatch, LimitOut } from "@/api/schema";

export const MEASURES = [
  "requests_per_minute",
  "tokens_per_minute",
  "tokens_per_day",
  "tokens_per_month",
] as const;
export type Measure = (typeof MEASURES)[number];

/** One line of limits as it is typed. An empty model: all models together. */
export interface LimitLine {
  id: number;
  model: string;
  amounts: Record<Measure, string>;
}

export interface KeyForm {
  name: string;
  scope: string;
  user: string;
  models: string;
  limits: LimitLine[];
  /** Seconds from now, "never", or "as it is". */
  ends: string;
}

export const AS_IT_IS = "as it is";
export const NEVER = "never";
const DAY_S = 86_400;
export const LIFETIMES = [
  { value: NEVER, label: "never" },
  { value: String(DAY_S), label: "in a day" },
  { value: String(7 * DAY_S), label: "in a week" },
  { value: String(30 * DAY_S), label: "in 30 days" },
  { value: String(90 * DAY_S), label: "in 90 days" },
  { value: String(365 * DAY_S), label: "in a year" },
] as const;

export const SCOPES = [
  { value: "infer", label: "infer: ask models" },
  { value: "operate", label: "operate: run the cluster too" },
  { value: "admin", label: "admin: everything, keys and users too" },
] as const;

const NOTHING: Record<Measure, string> = {
  requests_per_minute: "",
  tokens_per_minute: "",
  tokens_per_day: "",
  tokens_per_month: "",
};

export function emptyLine(id: number): LimitLine {
  return { id, model: "", amounts: { ...NOTHING } };
}

export function formOf(key: KeyOut | null): KeyForm {
  if (!key) {
    return { name: "", scope: "infer", user: "", models: "", limits: [emptyLine(0)], ends: NEVER };
  }
  const lines = (key.limits ?? []).map((limit, id) => lineOf(limit, id));
  const hasAll = lines.some((line) => line.model === "");
  return {
    name: key.name,
    scope: key.scope ?? "admin",
    user: key.user_name ?? "",
    models: (key.models ?? []).join("\n"),
    limits: hasAll ? lines : [emptyLine(lines.length), ...lines],
    ends: AS_IT_IS,
  };
}

function lineOf(limit: LimitOut, id: number): LimitLine {
  const amounts = { ...NOTHING };
  for (const measure of MEASURES) amounts[measure] = limit[measure]?.toString() ?? "";
  return { id, model: limit.model ?? "", amounts };
}

/** Patterns, one a line or between commas; none: every model. */
export function patternsOf(text: string): string[] | null {
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

export function limitsOf(lines: LimitLine[]): LimitOut[] {
  return lines
    .map((line) => {
      const limit: LimitOut = { model: line.model.trim() };
      for (const measure of MEASURES) {
        if (line.amounts[measure].trim() !== "") limit[measure] = Number(line.amounts[measure]);
      }
      return limit;
    })
    .filter((limit) => MEASURES.some((measure) => limit[measure] != null));
}

/** What cannot be sent, as a sentence; null: all is well. */
export function faultOf(form: KeyForm): string | null {
  const models = limitsOf(form.limits).map((limit) => limit.model ?? "");
  const twice = models.find((model, place) => models.indexOf(model) !== place);
  if (twice !== undefined) {
    return `${twice === "" ? "All models together" : twice} has two lines of limits. Keep one of them.`;
  }
  return null;
}

const seconds = (ends: string) => (ends === NEVER ? null : Number(ends));

export function wishOf(form: KeyForm): KeyIn {
  return {
    name: form.name.trim(),
    scope: form.scope as KeyIn["scope"],
    user: form.user || null,
    models: patternsOf(form.models),
    limits: limitsOf(form.limits),
    expires_in_s: seconds(form.ends),
  };
}

export function patchOf(before: KeyOut, form: KeyForm): Partial<KeyPatch> {
  const patch: Partial<KeyPatch> = {};
  const was = wishOf(formOf(before));
  const now = wishOf(form);
  if (now.name !== was.name) patch.name = now.name;
  if (now.scope !== was.scope) patch.scope = now.scope as KeyPatch["scope"];
  if (JSON.stringify(now.models) !== JSON.stringify(was.models)) patch.models = now.models;
  if (JSON.stringify(now.limits) !== JSON.stringify(was.limits)) patch.limits = now.limits ?? [];
  if (form.ends !== AS_IT_IS) patch.expires_in_s = seconds(form.ends);
  return patch;
}
