// Which models can be talked to, in the order in which they are offered: what is loaded, what is there, what can be had.
import type { CapabilitiesOut, GalleryModelOut } from "@/api/schema";

export type Mode = "chat" | "embeddings" | "speech" | "transcription";
export type Ready = "loaded" | "loading" | "cold" | "absent";

export interface Choice {
  /** What a request names. */
  name: string;
  ready: Ready;
  /** For people: where it is loaded, or how much has to be fetched. */
  note: string;
  entry: string | null;
}

/** How small it is and how well it is known decides what a newcomer is offered first. */
export const FIRST = "smollm2-135m";

const NEEDS: Record<Mode, readonly string[]> = {
  chat: ["chat"],
  embeddings: ["embeddings"],
  speech: ["speech"],
  transcription: ["transcriptions", "transcription"],
};
const RANK: Record<Ready, number> = { loaded: 0, loading: 1, cold: 2, absent: 3 };

export function choicesOf(mode: Mode, present: CapabilitiesOut[], catalog: GalleryModelOut[]): Choice[] {
  const can = (words: readonly string[]) => NEEDS[mode].some((word) => words.includes(word));
  const here = present.filter((model) => !model.disabled && can(model.capabilities)).map(fromPresent);
  const taken = new Set(here.map((choice) => choice.name));
  const absent = catalog
    .filter((entry) => !entry.installed && can(entry.serves ?? []) && !taken.has(entry.name))
    .map(fromCatalog);
  return [...here, ...absent].sort(
    (a, b) =>
      RANK[a.ready] - RANK[b.ready] ||
      Number(b.name === FIRST) - Number(a.name === FIRST) ||
      a.name.localeCompare(b.name),
  );
}

function fromPresent(model: CapabilitiesOut): Choice {
  const places = model.loaded_on ?? [];
  const loaded = places.filter((place) => place.state === "loaded");
  const names = [...new Set(loaded.map((place) => place.node_name))].join(", ");
  if (loaded.length > 0)
    return { name: model.name, ready: "loaded", note: `loaded on ${names}`, entry: null };
  // A replica that is being unloaded answers nothing: the next request loads another one.
  if (places.some((place) => place.state === "loading" || place.state === "staging"))
    return { name: model.name, ready: "loading", note: "being loaded", entry: null };
  const note = model.load_failed
    ? "its last load failed; tried again when it is asked"
    : "loads when it is asked";
  return { name: model.name, ready: "cold", note, entry: null };
}

function fromCatalog(entry: GalleryModelOut): Choice {
  const size = entry.size ? `${entry.size}, ` : "";
  return {
    name: entry.name,
    ready: "absent",
    note: `not installed: ${size}installs itself when it is asked`,
    entry: entry.id,
  };
}

/** What happens with the first message, in a sentence. */
export function invitation(choice: Choice | null): string {
  switch (choice?.ready) {
    case "loaded":
      return "It is loaded. Send a message, and it answers.";
    case "loading":
      return "It is being loaded. Send a message now: it answers as soon as it is ready.";
    case "cold":
      return "It is not loaded. Send a message: it is loaded first, then it answers.";
    case "absent":
      return "Send a message: the engine and the model are fetched first, then it answers. You see how far that is.";
    default:
      return "Install one on the page Models.";
  }
}

/** The choice that the address names, else the best one. */
export function chosenOf(choices: Choice[], named: string | undefined): Choice | null {
  if (named !== undefined) return choices.find((choice) => choice.name === named) ?? null;
  return choices[0] ?? null;
}

/**
 * The same, but whoever is being talked to stays: another model that becomes ready does not take the place, and one that
 * is being installed is for a moment neither in the catalog nor among the models.
 */
export function heldChoice(
  choices: Choice[],
  named: string | undefined,
  before: Choice | null,
): Choice | null {
  const wanted = named ?? before?.name;
  return chosenOf(choices, wanted) ?? (before && before.name === wanted ? before : null);
}
