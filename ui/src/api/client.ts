// The one way to the API. Every failure becomes a `Problem` with a sentence and, if there is one, a hint.
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

  /** Nobody answered: the frontend is away, or the network is. */
  get isLost(): boolean {
    return this.status === 0;
  }
}

/** The header without which a call with a session's cookie changes nothing. */
export const OWN_PAGE = { "X-Corral-Request": "1" } as const;

export const api = createClient<paths>({ baseUrl: window.location.origin, headers: OWN_PAGE });

interface Answered<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** What a call gave, or its problem thrown: `await answer(api.GET("/api/nodes"))`. */
export async function answer<T>(call: Promise<Answered<T>>): Promise<T> {
  let answered: Answered<T>;
  try {
    answered = await call;
  } catch (cause) {
    throw lost(cause);
  }
  if (!answered.response.ok) throw problemOf(answered.response.status, answered.error);
  return answered.data as T;
}

/** For calls that the description has no types for, such as those of `/v1`. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { ...OWN_PAGE, ...(init.headers as Record<string, string> | undefined) };
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw lost(cause);
  }
  if (!response.ok) throw problemOf(response.status, await response.json().catch(() => null));
  return response;
}

export function problemOf(status: number, body: unknown): Problem {
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
    typeof error === "string" ? error : `The frontend answered with status ${status}.`,
  );
}

function lost(cause: unknown): Problem {
  const detail = { cause: String(cause) };
  return new Problem(
    0,
    "lost",
    "The frontend does not answer.",
    "Try again when the connection is back.",
    detail,
  );
}

export function asProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem(-1, "page", String(error));
}
