// Lists the models to choose from: loaded ones first, then the other models of the cluster, then gallery entries.
import type { GalleryModelOut, ModelCapabilitiesOut } from "@/api/schema";

export type PlaygroundMode = "chat" | "embeddings" | "speech" | "transcription";
export type ModelReadiness = "loaded" | "loading" | "cold" | "absent";

export interface ModelChoice {
  /** The model name in a request. */
  name: string;
  ready: ModelReadiness;
  /** A text for the user: where the model is loaded, or how much has to be downloaded. */
  note: string;
  entry: string | null;
}

/** The gallery entry that is offered first: small and well known. */
const DEFAULT_MODEL = "smollm2-135m";

const NEEDS: Record<PlaygroundMode, readonly string[]> = {
  chat: ["chat"],
  embeddings: ["embeddings"],
  speech: ["speech"],
  transcription: ["transcriptions", "transcription"],
};
const RANK: Record<ModelReadiness, number> = { loaded: 0, loading: 1, cold: 2, absent: 3 };

export function listChoices(
  mode: PlaygroundMode,
  present: ModelCapabilitiesOut[],
  catalog: GalleryModelOut[],
): ModelChoice[] {
  const can = (words: readonly string[]) => NEEDS[mode].some((word) => words.includes(word));
  const here = present.filter((model) => !model.disabled && can(model.capabilities)).map(fromPresent);
  const taken = new Set(here.map((choice) => choice.name));
  const absent = catalog
    .filter((entry) => !entry.installed && can(entry.serves ?? []) && !taken.has(entry.name))
    .map(fromCatalog);
  return [...here, ...absent].sort(
    (a, b) =>
      RANK[a.ready] - RANK[b.ready] ||
      Number(b.name === DEFAULT_MODEL) - Number(a.name === DEFAULT_MODEL) ||
      a.name.localeCompare(b.name),
  );
}

function fromPresent(model: ModelCapabilitiesOut): ModelChoice {
  const places = model.loaded_on ?? [];
  const loaded = places.filter((place) => place.state === "loaded");
  const names = [...new Set(loaded.map((place) => place.node_name))].join(", ");
  if (loaded.length > 0)
    return { name: model.name, ready: "loaded", note: `loaded on ${names}`, entry: null };
  // A replica that is being unloaded answers nothing: the next request loads another one.
  if (places.some((place) => place.state === "loading" || place.state === "staging"))
    return { name: model.name, ready: "loading", note: "loading", entry: null };
  const note = model.load_failed
    ? "last load failed; retried on the next request"
    : "loads on the first request";
  return { name: model.name, ready: "cold", note, entry: null };
}

function fromCatalog(entry: GalleryModelOut): ModelChoice {
  const size = entry.size ? `${entry.size}, ` : "";
  return {
    name: entry.name,
    ready: "absent",
    note: `not installed; ${size}installed on the first request`,
    entry: entry.id,
  };
}

/** What happens after the first message, in a sentence. */
export function describeChoice(choice: ModelChoice | null): string {
  switch (choice?.ready) {
    case "loaded":
      return "Ready.";
    case "loading":
      return "Loading; the answer follows when the model is ready.";
    case "cold":
      return "Not loaded; loads on your first message.";
    case "absent":
      return "Not installed; your first message downloads the engine and the model.";
    default:
      return "Install one on the Models page.";
  }
}

/** The choice that the URL names, else the best one. */
export function pickChoice(choices: ModelChoice[], named: string | undefined): ModelChoice | null {
  if (named !== undefined) return choices.find((choice) => choice.name === named) ?? null;
  return choices[0] ?? null;
}

/**
 * Like `pickChoice`, but the current model is kept: another model that becomes ready does not replace it, and a model
 * that is being installed is for a moment neither in the catalog nor among the models.
 */
export function keepChoice(
  choices: ModelChoice[],
  named: string | undefined,
  before: ModelChoice | null,
): ModelChoice | null {
  const name = named ?? before?.name;
  return pickChoice(choices, name) ?? (before && before.name === name ? before : null);
}
