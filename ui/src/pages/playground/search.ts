import { dropUndefined, parseChoice, parseText } from "@/text/search";

const MODES = ["chat", "embeddings", "speech", "transcription"] as const;

export function playgroundSearch(search: Record<string, unknown>) {
  return dropUndefined({ model: parseText(search, "model"), mode: parseChoice(search, "mode", MODES) });
}
