// Streams one call of /v1/chat/completions. Each piece of text comes with what is known about the answer so far: the
// replica that answers and its speed.
import { makeProblem, Problem, request } from "@/api/client";
import { SseParser } from "@/pages/playground/sse";

export interface ChatMessage {
  role: "system" | "user" | "assistant";
  content: string;
}

export interface ChatParameters {
  system: string;
  temperature: number | null;
  top_p: number | null;
  max_tokens: number | null;
  seed: number | null;
}

export const DEFAULT_PARAMETERS: ChatParameters = {
  system: "You are a helpful assistant. Answer in a few sentences.",
  temperature: 0.7,
  top_p: null,
  max_tokens: 512,
  seed: null,
};

export interface AnswerFacts {
  node: string | null;
  replica: string | null;
  queueMs: number | null;
  firstTokenMs: number | null;
  promptTokens: number | null;
  tokens: number | null;
  /** The speed of the answer alone, without the wait for its first token. */
  tokensPerS: number | null;
  finish: string | null;
}

export const NO_FACTS: AnswerFacts = {
  node: null,
  replica: null,
  queueMs: null,
  firstTokenMs: null,
  promptTokens: null,
  tokens: null,
  tokensPerS: null,
  finish: null,
};

/** The body of the call. Parameters that are not set are left out, so that the server's defaults apply. */
export function makeChatBody(
  model: string,
  messages: ChatMessage[],
  parameters: ChatParameters,
): Record<string, unknown> {
  const { system, ...numbers } = parameters;
  const set = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== null));
  const allMessages: ChatMessage[] = system.trim()
    ? [{ role: "system", content: system.trim() }, ...messages]
    : messages;
  return { model, messages: allMessages, ...set };
}

interface ChatChunk {
  choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[];
  usage?: { prompt_tokens?: number; completion_tokens?: number } | null;
  error?: unknown;
}

export interface ChatUpdate {
  text: string;
  facts: AnswerFacts;
}

export async function* streamChat(
  body: Record<string, unknown>,
  signal: AbortSignal,
): AsyncGenerator<ChatUpdate> {
  const began = performance.now();
  const response = await request("/v1/chat/completions", {
    method: "POST",
    signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) throw new Problem(-1, "page", "This browser cannot read streams.");
  const events = new SseParser();
  const accumulator = new ChatAccumulator(response.headers, began);
  for (;;) {
    const { done, value } = await reader.read();
    for (const data of events.feed(done ? "\n\n" : value)) {
      if (data === "[DONE]") return;
      const update = accumulator.addChunk(JSON.parse(data) as ChatChunk, performance.now());
      if (update) yield update;
    }
    if (done) throw new Problem(-1, "cut", "The response was cut off.", "Send the message again.");
  }
}

/** Collects the pieces of an answer. */
export class ChatAccumulator {
  private text = "";
  private pieces = 0;
  private firstAt: number | null = null;
  private facts: AnswerFacts;

  constructor(
    headers: Headers,
    private readonly began: number,
  ) {
    const queue = headers.get("x-corral-queue-ms");
    this.facts = {
      ...NO_FACTS,
      node: headers.get("x-corral-node"),
      replica: headers.get("x-corral-replica"),
      queueMs: queue === null ? null : Number(queue),
    };
  }

  addChunk(piece: ChatChunk, now: number): ChatUpdate | null {
    if (piece.error) throw makeProblem(-1, piece);
    const choice = piece.choices?.[0];
    const text = choice?.delta?.content ?? "";
    const facts = { ...this.facts };
    if (text) {
      this.pieces += 1;
      this.text += text;
      this.firstAt ??= now;
      facts.firstTokenMs ??= now - this.began;
      facts.tokens = this.pieces;
    }
    if (choice?.finish_reason) facts.finish = choice.finish_reason;
    if (piece.usage) {
      facts.promptTokens = piece.usage.prompt_tokens ?? null;
      facts.tokens = piece.usage.completion_tokens ?? facts.tokens;
    }
    const seconds = this.firstAt === null ? 0 : (now - this.firstAt) / 1000;
    if (seconds > 0 && (facts.tokens ?? 0) > 1) facts.tokensPerS = ((facts.tokens ?? 0) - 1) / seconds;
    this.facts = facts;
    return { text: this.text, facts };
  }
}

/** Seconds until the next attempt, if the model was still loading when the server's wait ended. */
export function computeRetryDelay(error: unknown): number | null {
  if (!(error instanceof Problem) || error.status !== 503 || error.code !== "model_loading") return null;
  const seconds = Number(error.details.retry_after_s);
  return Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds, 30) : 2;
}
