// The only client of the API. Every failure becomes a `Problem` with a sentence and, if there is one, a hint.
import createClient from "openapi-fetch";
import { pageHint } from "@/api/hints";
import type { paths } from "@/api/schema";

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null = null,
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
    this.name = "Problem";
  }

  /** Whether no answer came: the frontend or the network is unreachable. */
  get isLost(): boolean {
    return this.status === 0;
  }
}

/** The header that the server requires of a changing call with a session cookie, against cross-site requests. */
const OWN_PAGE_HEADERS = { "X-Corral-Request": "1" } as const;

export const api = createClient<paths>({ baseUrl: window.location.origin, headers: OWN_PAGE_HEADERS });

interface CallResult<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns the data of a call, or throws its `Problem`: `await answer(api.GET("/api/nodes"))`. */
export async function unwrapResponse<T>(call: Promise<CallResult<T>>): Promise<T> {
  let result: CallResult<T>;
  try {
    result = await call;
  } catch (cause) {
    throw makeLostProblem(cause);
  }
  if (!result.response.ok) throw makeProblem(result.response.status, result.error);
  return result.data as T;
}

/** For calls that the OpenAPI document has no types for, such as those of `/v1`. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { ...OWN_PAGE_HEADERS, ...(init.headers as Record<string, string> | undefined) };
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw makeLostProblem(cause);
  }
  if (!response.ok) throw makeProblem(response.status, await response.json().catch(() => null));
  return response;
}

export function makeProblem(status: number, body: unknown): Problem {
  const error = (body as { error?: Record<string, unknown> | string } | null)?.error;
  if (typeof error === "object" && error !== null) {
    const details = (error.details ?? {}) as Record<string, unknown>;
    const code = String(error.code ?? error.type ?? "");
    const hint = typeof error.hint === "string" ? error.hint : null;
    return new Problem(status, code, String(error.message ?? ""), pageHint(code, hint), details);
  }
  return new Problem(
    status,
    "",
    typeof error === "string" ? error : `The server responded with status ${status}.`,
  );
}

function makeLostProblem(cause: unknown): Problem {
  const detail = { cause: String(cause) };
  return new Problem(0, "lost", "The server does not respond.", "Retry when the connection is back.", detail);
}

export function asProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem(-1, "page", String(error));
}
