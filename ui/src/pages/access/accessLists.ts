// Filters, sorts and describes keys, users and stored secrets.
import type { KeyOut, LimitOut, ModelCapabilitiesOut, SecretOut, UserOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { formatCount } from "@/text/format";

export const isWorkingKey = (key: KeyOut): boolean => key.state === "active";

const has = (term: string, ...texts: (string | null | undefined)[]) =>
  texts.some((text) => text?.toLowerCase().includes(term));

/** Sorts active keys first, then by name. */
export function filterKeys(all: KeyOut[], term: string, onlyWorking: boolean): KeyOut[] {
  const word = term.trim().toLowerCase();
  return all
    .filter((key) => !onlyWorking || isWorkingKey(key))
    .filter((key) => has(word, key.name, key.prefix, key.user_name, key.scope, ...(key.models ?? [])))
    .sort(
      (one, other) =>
        Number(isWorkingKey(other)) - Number(isWorkingKey(one)) || one.name.localeCompare(other.name),
    );
}

export function filterUsers(all: UserOut[], term: string): UserOut[] {
  const word = term.trim().toLowerCase();
  return all
    .filter((user) => has(word, user.name, user.scope, user.issuer))
    .sort((one, other) => one.name.localeCompare(other.name));
}

export function filterSecrets(all: SecretOut[], term: string): SecretOut[] {
  const word = term.trim().toLowerCase();
  return all
    .filter((secret) => has(word, secret.name, secret.changed_by))
    .sort((one, other) => one.name.localeCompare(other.name));
}

const TONES: Record<string, Tone> = { active: "good", expired: "warn", disabled: "warn", revoked: "still" };

export const pickTone = (state: string): Tone => TONES[state] ?? "still";

const UNITS = [
  ["requests_per_minute", "requests per minute"],
  ["tokens_per_minute", "tokens per minute"],
  ["tokens_per_day", "tokens per day"],
  ["tokens_per_month", "tokens per month"],
] as const;

/** One text for each limit: `60 requests per minute`, `qwen: 100K tokens per day`. */
export function limitWords(limit: LimitOut): string[] {
  const of = limit.model ? `${limit.model}: ` : "";
  return UNITS.flatMap(([measure, unit]) => {
    const value = limit[measure];
    return value == null ? [] : [`${of}${formatCount(value)} ${unit}`];
  });
}

/** An example call that can be pasted: with the key, and a model that it may use. */
export function makeCurlCommand(origin: string, key: string, model: string): string {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello!" }] });
  return [
    `curl ${origin}/v1/chat/completions \\`,
    `  -H "Authorization: Bearer ${key}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d '${body.replaceAll("'", "'\\''")}'`,
  ].join("\n");
}

/** Whether a pattern of a key, such as `llama-*`, matches. Patterns are those of a shell, and case-sensitive. */
export function matchesPattern(pattern: string, name: string): boolean {
  const source = pattern
    .replace(/[.+^${}()|\\]/g, "\\$&")
    .replaceAll("*", ".*")
    .replaceAll("?", ".")
    .replaceAll("[!", "[^");
  try {
    return new RegExp(`^${source}$`).test(name);
  } catch {
    return pattern === name;
  }
}

/** How soon a model would answer: a loaded one at once, one whose last load failed perhaps never. */
function rank(model: ModelCapabilitiesOut): number {
  const states = (model.loaded_on ?? []).map((place) => place.state);
  if (states.includes("loaded")) return 0;
  if (states.includes("loading") || states.includes("staging")) return 1;
  return model.load_failed ? 3 : 2;
}

/** A model for the example: one that chats, that the key may use, and that is the likeliest to answer. */
export function exampleModel(
  patterns: string[] | null | undefined,
  models: readonly ModelCapabilitiesOut[],
): string {
  const able = models.filter(
    (model) =>
      !model.disabled &&
      model.capabilities.includes("chat") &&
      (!patterns || patterns.some((pattern) => matchesPattern(pattern, model.name))),
  );
  const [best] = [...able].sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
  return best?.name ?? patterns?.find((pattern) => !/[*?[]/.test(pattern)) ?? "MODEL";
}

/** Whether a machine keeps this key in a file: it was created from a frontend's settings, or by `corral keys recover`. */
export function isLocalClusterKey({ created_by }: Pick<KeyOut, "created_by">): boolean {
  return created_by === "settings" || created_by.startsWith("recovery by ");
}
