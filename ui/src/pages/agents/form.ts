// The form of an agent, made from the metadata of the API: which control a field has, what the form starts with, what
// is sent, and at which field an error belongs. Pure.
import type { Problem } from "@/api/client";
import type { AgentFieldOut, AgentMetadataOut } from "@/api/schema";

export type Control =
  | "text"
  | "long"
  | "number"
  | "flag"
  | "choice"
  | "model"
  | "servers"
  | "declared"
  | "rules"
  | "agents"
  | "skills"
  | "pairs"
  | "group"
  | "json";

export interface FormField {
  name: string;
  label: string;
  control: Control;
  description: string;
  default: unknown;
  isRequired: boolean;
  options: readonly string[];
  minimum: number | null;
  maximum: number | null;
  maxLength: number | null;
  isInteger: boolean;
  example: string;
  /** The fields of a group. */
  fields: readonly FormField[];
}

export interface FormSection {
  name: string;
  title: string;
  fields: readonly FormField[];
}

/** What the form holds: a value for each field, in the shape that its control edits. */
export type Draft = Readonly<Record<string, unknown>>;

/** One entry of a map, while it is edited: it may be empty, and stand there twice. */
export interface Pair {
  key: string;
  value: string;
}

export interface ServerDraft {
  name: string;
  url: string;
  transport: string;
  token: string;
  headers: readonly Pair[];
}

export const EMPTY_SERVER: ServerDraft = { name: "", url: "", transport: "http", token: "", headers: [] };
export const TOOL_RULES = [
  { value: "auto", label: "call without asking" },
  { value: "ask", label: "ask a person first" },
  { value: "deny", label: "never call" },
] as const;

type Schema = Record<string, unknown>;

/** Longer texts have several lines. */
const LONG_TEXT = 1000;

const LABELS: Record<string, string> = {
  agents: "Other agents",
  auto_compaction_threshold: "Summarise above",
  budgets: "Limits of one turn",
  cancel_previous_on_new_message: "A new message cancels the running turn",
  enable_auto_compaction: "Summarise long histories",
  inner_monologue_template: "Template",
  labels: "Node labels",
  loop_detection: "Loop detection",
  max_attempts: "Retries of an answer",
  max_iterations: "Max model calls",
  mcp_servers: "MCP servers",
  mcp_stdio_servers: "Declared MCP servers",
  periodic_runs: "Interval",
  permanent_goal: "Goal",
  enable_skills: "Offer skills",
  selected_skills: "Which skills",
  shared: "Shared with everybody",
  skills_mode: "How",
  skills_prompt: "Introduction",
  standalone_job: "Runs by itself",
  strip_thinking_tags: "Remove thinking from answers",
  tool_calls: "Max tool calls",
  tool_mode: "Tool calls",
  tokens: "Max tokens of a turn",
  wall: "Time limit",
};

/** Controls of their own, each for a field of this type. */
const OWN_CONTROLS: Record<string, readonly [type: string, control: Control]> = {
  model: ["string", "model"],
  mcp_servers: ["array", "servers"],
  mcp_stdio_servers: ["array", "declared"],
  tool_rules: ["object", "rules"],
  agents: ["array", "agents"],
  selected_skills: ["array", "skills"],
};

export function labelOf(name: string): string {
  const words = name.replaceAll("_", " ");
  return LABELS[name] ?? `${words.charAt(0).toUpperCase()}${words.slice(1)}`;
}

/** The sections of the form in the order of the API; what is required stands first in its section. */
export function listSections(metadata: AgentMetadataOut, isAdmin: boolean): FormSection[] {
  const schema = metadata.json_schema as Schema;
  const properties = (schema.properties ?? {}) as Record<string, Schema>;
  return metadata.sections
    .map((name) => ({
      name,
      title: labelOf(name),
      fields: metadata.fields
        .filter((field) => field.section === name && (isAdmin || field.name !== "shared"))
        .sort((one, other) => Number(other.required) - Number(one.required))
        .map((field) => makeField(field, properties[field.name] ?? {}, schema)),
    }))
    .filter((section) => section.fields.length > 0);
}

function makeField(field: Partial<AgentFieldOut> & { name: string }, part: Schema, root: Schema): FormField {
  const shape = resolve(part, root);
  const type = field.type ?? String(shape.type ?? "string");
  const options = (field.options ?? (shape.enum as unknown[] | undefined) ?? []).map(String);
  const nested = (shape.properties ?? {}) as Record<string, Schema>;
  const maxLength = typeof shape.maxLength === "number" ? shape.maxLength : null;
  const control = pickControl(field.name, type, { options, maxLength, shape, nested });
  return {
    name: field.name,
    label: labelOf(field.name),
    control,
    description: field.description ?? String(shape.description ?? part.description ?? ""),
    default: field.default ?? part.default ?? null,
    isRequired: field.required ?? false,
    options,
    minimum: field.minimum ?? (shape.minimum as number | undefined) ?? null,
    maximum: field.maximum ?? (shape.maximum as number | undefined) ?? null,
    maxLength,
    isInteger: type === "integer",
    example: firstText(part.examples ?? shape.examples),
    fields:
      control === "group" ? Object.entries(nested).map(([name, inner]) => makeNested(name, inner, root)) : [],
  };
}

function makeNested(name: string, part: Schema, root: Schema): FormField {
  const shape = resolve(part, root);
  return makeField(
    {
      name,
      type: String(shape.type ?? "string"),
      description: String(part.description ?? ""),
      default: part.default,
    },
    part,
    root,
  );
}

/** The shape of a property: what a reference leads to, or the type beside null. */
function resolve(part: Schema, root: Schema): Schema {
  const either = (part.anyOf as Schema[] | undefined)?.find((one) => one.type !== "null");
  const shape = either ?? part;
  const reference = shape.$ref;
  if (typeof reference !== "string") return shape;
  const definitions = (root.$defs ?? {}) as Record<string, Schema>;
  return definitions[reference.split("/").at(-1) ?? ""] ?? shape;
}

const firstText = (examples: unknown): string => {
  const first = Array.isArray(examples) ? examples[0] : undefined;
  return typeof first === "string" ? first : "";
};

interface Shape {
  options: readonly string[];
  maxLength: number | null;
  shape: Schema;
  nested: Record<string, Schema>;
}

function pickControl(name: string, type: string, { options, maxLength, shape, nested }: Shape): Control {
  const own = OWN_CONTROLS[name];
  if (own?.[0] === type) return own[1];
  if (options.length > 0) return "choice";
  switch (type) {
    case "boolean":
      return "flag";
    case "integer":
    case "number":
      return "number";
    case "string":
      return (maxLength ?? 0) > LONG_TEXT ? "long" : "text";
    case "object":
      if (Object.keys(nested).length > 0) return "group";
      return (shape.additionalProperties as Schema | undefined)?.type === "string" ? "pairs" : "json";
    default:
      return "json";
  }
}

const listFields = (sections: readonly FormSection[]): FormField[] =>
  sections.flatMap((section) => section.fields);

/** What the form starts with: a configuration, or the defaults of a new agent. */
export function makeDraft(sections: readonly FormSection[], config: Record<string, unknown> = {}): Draft {
  return draftFields(listFields(sections), config);
}

function draftFields(fields: readonly FormField[], config: Record<string, unknown>): Draft {
  return Object.fromEntries(
    fields.map((field) => [field.name, draftValue(field, config[field.name] ?? field.default)]),
  );
}

function draftValue(field: FormField, value: unknown): unknown {
  switch (field.control) {
    case "flag":
      return value === true;
    case "number":
      return typeof value === "number" ? value : null;
    case "servers":
      return (Array.isArray(value) ? value : []).map(draftServer);
    case "declared":
    case "agents":
    case "skills":
      return Array.isArray(value) ? value.map(String) : [];
    case "rules":
    case "pairs":
      return draftPairs(value);
    case "group":
      return draftFields(field.fields, (value ?? {}) as Record<string, unknown>);
    case "json":
      return JSON.stringify(value, null, 2) ?? "";
    default:
      return typeof value === "string" ? value : value == null ? "" : String(value);
  }
}

function draftServer(server: unknown): ServerDraft {
  const { headers, ...rest } = (server ?? {}) as Partial<ServerDraft>;
  return { ...EMPTY_SERVER, ...rest, headers: draftPairs(headers) };
}

const draftPairs = (value: unknown): Pair[] =>
  Object.entries((value ?? {}) as Record<string, unknown>).map(([key, one]) => ({ key, value: String(one) }));

export type FieldErrors = Readonly<Record<string, string>>;

export interface FormResult {
  body: Record<string, unknown>;
  /** What is wrong before it is sent, by the name of the field; that of a field in a group has a dot. */
  errors: FieldErrors;
}

export function readDraft(sections: readonly FormSection[], draft: Draft): FormResult {
  const errors: Record<string, string> = {};
  const body = readFields(listFields(sections), draft, errors, "");
  return { body, errors };
}

function readFields(
  fields: readonly FormField[],
  draft: Draft,
  errors: Record<string, string>,
  prefix: string,
): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const field of fields) {
    const path = `${prefix}${field.name}`;
    const value = draft[field.name];
    const found = findDraftError(field, value);
    if (found) errors[path] = found;
    body[field.name] =
      field.control === "group"
        ? readFields(field.fields, value as Draft, errors, `${path}.`)
        : readValue(field, value);
  }
  return body;
}

function readValue(field: FormField, value: unknown): unknown {
  switch (field.control) {
    case "number":
      return value ?? field.default;
    case "servers":
      return (value as ServerDraft[]).map(({ headers, ...server }) => ({
        ...trimAll(server),
        headers: readPairs(headers),
      }));
    case "rules":
    case "pairs":
      return readPairs(value as Pair[]);
    case "json":
      return parseJson(String(value));
    case "text":
      // An empty text where the API has a default, such as a duration, means that default.
      return String(value).trim() || (field.default ?? "");
    case "model":
      return String(value).trim();
    default:
      return value;
  }
}

const readPairs = (pairs: readonly Pair[]): Record<string, string> =>
  Object.fromEntries(
    pairs
      .filter(({ key, value }) => key.trim() || value.trim())
      .map(({ key, value }) => [key.trim(), value.trim()]),
  );

const trimAll = <T extends Record<string, string>>(texts: T): T =>
  Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, text.trim()])) as T;

function parseJson(text: string): unknown {
  try {
    return text.trim() === "" ? null : JSON.parse(text);
  } catch {
    return undefined;
  }
}

function findDraftError(field: FormField, value: unknown): string | null {
  switch (field.control) {
    case "model":
      return String(value).trim() ? null : "Choose the model that answers.";
    case "text":
      return field.isRequired && !String(value).trim() ? "Give it a name." : null;
    case "rules":
    case "pairs":
      return findPairError(value as Pair[]);
    case "servers":
      return findServerError(value as ServerDraft[]);
    case "json":
      return parseJson(String(value)) === undefined ? "This is not valid JSON." : null;
    default:
      return null;
  }
}

function findPairError(pairs: readonly Pair[]): string | null {
  const keys = pairs.map(({ key }) => key.trim());
  if (pairs.some(({ key, value }) => !key.trim() && value.trim() && !isRule(value)))
    return "A name is missing.";
  const doubled = keys.find((key, place) => key && keys.indexOf(key) !== place);
  return doubled ? `${doubled} is there twice.` : null;
}

/** A new rule has its value from the beginning; without a pattern it counts for nothing. */
const isRule = (value: string): boolean => TOOL_RULES.some((rule) => rule.value === value);

function findServerError(servers: readonly ServerDraft[]): string | null {
  const empty = servers.findIndex(({ url }) => !url.trim());
  return empty < 0 ? null : `Server ${empty + 1} has no address.`;
}

/** The rows with one of them before the row that it was behind. */
export const moveUp = (pairs: readonly Pair[], place: number): Pair[] => {
  const [before, moved] = [pairs[place - 1], pairs[place]];
  return before && moved ? pairs.with(place - 1, moved).with(place, before) : [...pairs];
};

export const isSameDraft = (one: Draft, other: Draft): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

const FIELD_OF_CODE: Record<string, string> = {
  agent_exists: "name",
  bad_agent_name: "name",
  bad_mcp_server: "mcp_servers",
  cluster_secret_refused: "mcp_servers",
  bad_secret_reference: "mcp_servers",
  secret_in_clear: "mcp_servers",
  mcp_server_not_found: "mcp_stdio_servers",
  name_of_model: "name",
  bad_template: "inner_monologue_template",
  bad_labels: "labels",
};
const NAMED = /^([a-z_]+(?:\.[a-z0-9_]+)*): (.+)$/s;

/** The errors of a refused form by field. Without one, the error is shown above the form. */
export function listFieldErrors(problem: Problem, sections: readonly FormSection[]): FieldErrors {
  const paths = new Set(
    listFields(sections).flatMap((field) => [
      field.name,
      ...field.fields.map((inner) => `${field.name}.${inner.name}`),
    ]),
  );
  const found: Record<string, string> = {};
  const add = (path: string, text: string) => {
    const parts = path.split(".");
    const known = [parts.slice(0, 2).join("."), parts[0] ?? ""].find((one) => paths.has(one));
    if (known === undefined) return;
    const where = path.slice(known.length).replace(/^\./, "");
    found[known] ??= where ? `${describePlace(where)}: ${text}` : capitalise(text);
  };
  const problems = problem.details.problems;
  if (Array.isArray(problems)) {
    for (const one of problems as { field?: unknown; problem?: unknown }[]) {
      add(String(one.field ?? ""), withPeriod(String(one.problem ?? "")));
    }
  }
  const sentence = [problem.message, problem.hint].filter(Boolean).join(" ");
  const [, name, rest] = NAMED.exec(sentence) ?? [];
  if (Object.keys(found).length === 0 && name && rest) add(name, rest);
  const field = FIELD_OF_CODE[problem.code];
  if (Object.keys(found).length === 0 && field) add(field, sentence);
  return found;
}

/** `0.url`: the address of the first server. */
function describePlace(path: string): string {
  const [first = "", ...rest] = path.split(".");
  if (!/^\d+$/.test(first)) return labelOf(first);
  return [`Number ${Number(first) + 1}`, ...rest.map((word) => word.replaceAll("_", " "))].join(", ");
}

const withPeriod = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);
const capitalise = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** The names that can be chosen, and those that are chosen and do not exist any more. */
export function listChoices(
  chosen: readonly string[],
  offered: readonly string[],
): { name: string; isGone: boolean }[] {
  const gone = chosen.filter((name) => !offered.includes(name));
  return [
    ...offered.map((name) => ({ name, isGone: false })),
    ...gone.map((name) => ({ name, isGone: true })),
  ];
}
