// Looks at the beginning of a batch's input before it is uploaded: most faults are in its first line. Pure.
import { bytes } from "@/text/format";

export const ENDPOINTS = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/embeddings",
  "/v1/responses",
] as const;
export type Endpoint = (typeof ENDPOINTS)[number];
/** As much as the server takes. */
export const INPUT_BYTES_MAX = 200 * 1024 * 1024;
/** Enough for the first line of nearly every input; a longer one is left to the server. */
export const HEAD_BYTES = 64 * 1024;

export interface InputCheck {
  /** The endpoint that the first line names. */
  endpoint: Endpoint | null;
  /** What is wrong, as a sentence; null if nothing was found. */
  fault: string | null;
}

const NOTHING: InputCheck = { endpoint: null, fault: null };
const EXAMPLE =
  'A line is {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": …}}.';

/** `head` is the beginning of a file of `size` bytes. */
export function inspectInput(head: string, size: number): InputCheck {
  if (size === 0) return { ...NOTHING, fault: "The file is empty." };
  if (size > INPUT_BYTES_MAX)
    return { ...NOTHING, fault: `An input has at most ${bytes(INPUT_BYTES_MAX)}. Divide it into several.` };
  const end = head.indexOf("\n");
  if (end < 0 && size > HEAD_BYTES) return NOTHING;
  const line = end < 0 ? head : head.slice(0, end);
  const request = parseObject(line.replace(/^\uFEFF/, ""));
  if (!request) return { ...NOTHING, fault: `Line 1 is not a JSON object. ${EXAMPLE}` };
  const endpoint = ENDPOINTS.find((one) => one === request.url);
  if (endpoint) return { endpoint, fault: null };
  const fault =
    request.url === undefined
      ? `Line 1 has no url. ${EXAMPLE}`
      : `Line 1 is for ${String(request.url).slice(0, 80)}. A batch takes requests for ${ENDPOINTS.join(", ")}.`;
  return { endpoint: null, fault };
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}
