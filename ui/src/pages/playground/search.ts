import { oneOf, said, text } from "@/text/search";

export const MODES = ["chat", "embeddings", "speech", "transcription"] as const;

export function playgroundSearch(search: Record<string, unknown>) {
  return said({ model: text(search, "model"), mode: oneOf(search, "mode", MODES) });
}
