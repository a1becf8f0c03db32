// Converts the form of a task to the body of a request and back, and says what is wrong at which field. Pure.
import type { Problem } from "@/api/client";
import type { MediaSourceBody, TaskIn, TaskOut } from "@/api/schema";
import { findPairFault, makePairs, type Pair, readPairs } from "@/kit/pairs";
import { formatParameter, readParameters } from "@/pages/tasks/parameters";

export interface WebhookLine {
  id: number;
  url: string;
  method: string;
  headers: Pair[];
  payload: string;
}

export interface SourceLine {
  id: number;
  type: MediaSourceBody["type"];
  url: string;
  headers: Pair[];
}

export interface ServerLine {
  id: number;
  name: string;
  url: string;
  transport: "http" | "sse";
  token: string;
  headers: Pair[];
}

export interface TaskForm {
  name: string;
  description: string;
  model: string;
  prompt: string;
  isEnabled: boolean;
  cron: string;
  timeZone: string;
  /** As typed, by name. Those that the prompt does not use any more stay, and are sent no more. */
  cronParameters: Record<string, string>;
  overlap: TaskIn["overlap"];
  catchUp: TaskIn["catch_up"];
  webhooks: WebhookLine[];
  webhookSecret: string;
  sources: SourceLine[];
  servers: ServerLine[];
  declared: string[];
  labels: Pair[];
  wallS: string;
  steps: string;
  toolCalls: string;
  tokens: string;
  attempts: string;
}

/** Faults by field, as sentences: `name`, `cron`, `webhooks.0.url`. */
export type TaskFaults = Record<string, string>;

const DEFAULT_STEPS = "3";
const DEFAULT_ATTEMPTS = "3";

export function makeTaskForm(task: TaskOut | null, timeZone: string): TaskForm {
  if (!task) {
    return {
      name: "",
      description: "",
      model: "",
      prompt: "",
      isEnabled: true,
      cron: "",
      timeZone,
      cronParameters: {},
      overlap: "skip",
      catchUp: "none",
      webhooks: [],
      webhookSecret: "",
      sources: [],
      servers: [],
      declared: [],
      labels: [],
      wallS: "",
      steps: DEFAULT_STEPS,
      toolCalls: "",
      tokens: "",
      attempts: DEFAULT_ATTEMPTS,
    };
  }
  const parameters = Object.entries(task.cron_parameters ?? {});
  return {
    name: task.name,
    description: task.description,
    model: task.model,
    prompt: task.prompt,
    isEnabled: task.enabled,
    cron: task.cron,
    timeZone: task.cron ? task.time_zone : timeZone,
    cronParameters: Object.fromEntries(parameters.map(([name, value]) => [name, formatParameter(value)])),
    overlap: task.overlap as TaskIn["overlap"],
    catchUp: task.catch_up as TaskIn["catch_up"],
    webhooks: (task.webhooks ?? []).map((webhook, id) => ({
      id,
      url: webhook.url,
      method: webhook.method,
      headers: makePairs(webhook.headers),
      payload: webhook.payload_template,
    })),
    webhookSecret: task.webhook_secret,
    sources: (task.multimedia_sources ?? []).map((source, id) => ({
      id,
      type: source.type,
      url: source.url,
      headers: makePairs(source.headers),
    })),
    servers: (task.mcp_servers ?? []).map((server, id) => ({
      id,
      name: server.name,
      url: server.url,
      transport: server.transport,
      token: server.token,
      headers: makePairs(server.headers),
    })),
    declared: task.mcp_stdio_servers ?? [],
    labels: makePairs(task.labels),
    wallS: formatParameter(task.budgets.wall_s),
    steps: formatParameter(task.budgets.steps),
    toolCalls: formatParameter(task.budgets.tool_calls),
    tokens: formatParameter(task.budgets.tokens),
    attempts: String(task.max_attempts),
  };
}

const readNumber = (text: string): number | null => (text.trim() === "" ? null : Number(text));

/** `names` are the parameters of the prompt: only those are sent to jobs of the schedule. */
export function makeTaskBody(form: TaskForm, names: readonly string[], before: TaskOut | null): TaskIn {
  const used = Object.entries(form.cronParameters).filter(([name]) => names.includes(name));
  return {
    name: form.name.trim(),
    description: form.description.trim(),
    model: form.model.trim(),
    prompt: form.prompt,
    enabled: form.isEnabled,
    cron: form.cron.trim(),
    time_zone: form.timeZone.trim() || "UTC",
    cron_parameters: form.cron.trim()
      ? readParameters(Object.fromEntries(used), before?.cron_parameters ?? {})
      : {},
    overlap: form.overlap,
    catch_up: form.catchUp,
    webhooks: form.webhooks.map((line) => ({
      url: line.url.trim(),
      method: line.method,
      headers: readPairs(line.headers),
      payload_template: line.payload,
    })),
    webhook_secret: form.webhookSecret.trim(),
    multimedia_sources: form.sources.map((line) => ({
      type: line.type,
      url: line.url.trim(),
      headers: readPairs(line.headers),
    })),
    labels: readPairs(form.labels),
    ...makeServerLists(form, before),
    budgets: {
      wall_s: readNumber(form.wallS),
      steps: readNumber(form.steps),
      tool_calls: readNumber(form.toolCalls),
      tokens: readNumber(form.tokens),
    },
    max_attempts: readNumber(form.attempts) ?? Number(DEFAULT_ATTEMPTS),
  };
}

const ADDRESS_FAULT = "An address begins with http:// or https://.";
const REFERENCE = /^(?:\S+ )?secret:[\w.-]+$/;

export function findAddressFault(url: string): string | null {
  try {
    const { protocol, hostname } = new URL(url.trim());
    return (protocol === "http:" || protocol === "https:") && hostname ? null : ADDRESS_FAULT;
  } catch {
    return ADDRESS_FAULT;
  }
}

function findNumberFault(text: string, least: number, most: number): string | null {
  const number = readNumber(text);
  if (number === null || (Number.isInteger(number) && number >= least && number <= most)) return null;
  return most === Number.MAX_SAFE_INTEGER
    ? `Write a whole number, at least ${least}.`
    : `Write a whole number from ${least} to ${most}.`;
}

/** What is wrong with a form, by field. The server checks again, and more. */
export function findTaskFaults(form: TaskForm): TaskFaults {
  const faults: TaskFaults = {};
  const add = (field: string, fault: string | null) => {
    if (fault) faults[field] = fault;
  };
  add(
    "name",
    form.name.trim() ? (form.name.includes("/") ? "A name has no slash." : null) : "A task needs a name.",
  );
  add("model", form.model.trim() ? null : "A task needs a model.");
  add("prompt", form.prompt.trim() ? null : "A task needs a prompt.");
  form.webhooks.forEach((line, place) => {
    add(`webhooks.${place}.url`, REFERENCE.test(line.url.trim()) ? null : findAddressFault(line.url));
    add(`webhooks.${place}.headers`, findPairFault(line.headers, "header"));
  });
  if (form.webhookSecret.trim() && !REFERENCE.test(form.webhookSecret.trim()))
    add("webhook_secret", "Refer to a stored secret: secret:NAME.");
  form.sources.forEach((line, place) => {
    add(`sources.${place}.url`, findAddressFault(line.url));
    add(`sources.${place}.headers`, findPairFault(line.headers, "header"));
  });
  form.servers.forEach((line, place) => {
    add(`servers.${place}.url`, findAddressFault(line.url));
    add(`servers.${place}.headers`, findPairFault(line.headers, "header"));
    if (line.token.trim() && !REFERENCE.test(line.token.trim()))
      add(`servers.${place}.token`, "Refer to a stored secret: secret:NAME.");
  });
  for (const [field, text, least, most] of [
    ["wallS", form.wallS, 1, 86_400],
    ["steps", form.steps, 1, 1000],
    ["toolCalls", form.toolCalls, 0, 10_000],
    ["tokens", form.tokens, 1, Number.MAX_SAFE_INTEGER],
    ["attempts", form.attempts, 1, 10],
  ] as const)
    add(field, findNumberFault(text, least, most));
  add("labels", findPairFault(form.labels, "label"));
  return faults;
}

/** The fields that an error of the server is about, by its code, else by a word of its sentence. */
const FIELDS_BY_CODE: Record<string, string> = {
  task_exists: "name",
  model_not_found: "model",
  model_forbidden: "model",
};
const FIELDS_BY_WORD: readonly [RegExp, string][] = [
  [/\bneeds a name\b/, "name"],
  [/\bneeds a model\b/, "model"],
  [/\bneeds a prompt\b/, "prompt"],
  [/\bdescription\b/, "description"],
  [/\bcron pattern\b|\bday that never comes\b/, "cron"],
  [/\btime zone\b/, "time_zone"],
];

/** The field that an error of the server belongs to, with its sentence; null where only the form as a whole is. */
export function placeTaskProblem(problem: Problem, form: TaskForm): TaskFaults | null {
  const sentence = [problem.message, problem.hint].filter(Boolean).join(" ");
  const hasOtherTemplates = form.webhooks.some((line) => line.payload.trim() !== "");
  if (problem.code === "bad_template" && !hasOtherTemplates) return { prompt: sentence };
  const field =
    FIELDS_BY_CODE[problem.code] ??
    (problem.code === "bad_task"
      ? FIELDS_BY_WORD.find(([words]) => words.test(problem.message))?.[1]
      : undefined);
  return field === undefined ? null : { [field]: sentence };
}

/** Leaves empty lists out, so that jobs have the servers of their model, unless the task had none on purpose. */
function makeServerLists(form: TaskForm, before: TaskOut | null): Partial<TaskIn> {
  const hadNone = [before?.mcp_servers, before?.mcp_stdio_servers].some((list) => list?.length === 0);
  const servers = form.servers.map((line) => ({
    name: line.name.trim(),
    url: line.url.trim(),
    transport: line.transport,
    token: line.token.trim(),
    headers: readPairs(line.headers),
  }));
  return {
    ...(servers.length > 0 || hadNone ? { mcp_servers: servers } : {}),
    ...(form.declared.length > 0 || hadNone ? { mcp_stdio_servers: form.declared } : {}),
  };
}
