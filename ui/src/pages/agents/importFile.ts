// Reads a file that describes an agent.
import { Problem } from "@/api/client";

/** The document of a file; throws a `Problem` if the file holds none. */
export function parseDocument(text: string): Record<string, unknown> {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    throw new Problem(-1, "malformed_json", "The file is not valid JSON.", String((error as Error).message));
  }
  if (typeof document !== "object" || document === null || Array.isArray(document))
    throw new Problem(
      -1,
      "bad_agent",
      "The file does not describe an agent.",
      "It has to hold one JSON object.",
    );
  return document as Record<string, unknown>;
}
