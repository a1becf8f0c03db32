// A conversation with one model, kept in this tab. Bounded: turns that are too old or too long are dropped.
import type { AnswerFacts, ChatMessage } from "@/pages/playground/chat";

export interface Turn {
  question: string;
  answer: string;
  facts: AnswerFacts | null;
}

const TURNS_MAX = 40;
const STORED_CHARACTERS_MAX = 200_000;

export function makeMessages(turns: Turn[], question: string): ChatMessage[] {
  const messages = turns
    .filter((turn) => turn.answer)
    .flatMap<ChatMessage>((turn) => [
      { role: "user", content: turn.question },
      { role: "assistant", content: turn.answer },
    ]);
  return [...messages, { role: "user", content: question }];
}

const makeStorageKey = (model: string) => `corral.chat.${model}`;

export function readTurns(model: string): Turn[] {
  try {
    const turns = JSON.parse(sessionStorage.getItem(makeStorageKey(model)) ?? "[]") as unknown;
    return Array.isArray(turns) ? (turns as Turn[]).filter((turn) => typeof turn?.question === "string") : [];
  } catch {
    return [];
  }
}

export function storeTurns(model: string, turns: Turn[]): void {
  const text = JSON.stringify(turns.slice(-TURNS_MAX));
  if (text.length > STORED_CHARACTERS_MAX) return;
  try {
    sessionStorage.setItem(makeStorageKey(model), text);
  } catch {
    // The storage is full or not allowed: the conversation lasts as long as the page.
  }
}
