// A conversation with one model, kept in this tab. Bounded: what is too old or too long is not kept.
import type { Facts, Message } from "@/pages/playground/chat";

export interface Turn {
  question: string;
  answer: string;
  facts: Facts | null;
}

const TURNS_MAX = 40;
const KEPT_CHARACTERS_MAX = 200_000;

export function messagesOf(turns: Turn[], question: string): Message[] {
  const said = turns
    .filter((turn) => turn.answer)
    .flatMap<Message>((turn) => [
      { role: "user", content: turn.question },
      { role: "assistant", content: turn.answer },
    ]);
  return [...said, { role: "user", content: question }];
}

const placeOf = (model: string) => `corral.chat.${model}`;

export function kept(model: string): Turn[] {
  try {
    const turns = JSON.parse(sessionStorage.getItem(placeOf(model)) ?? "[]") as unknown;
    return Array.isArray(turns) ? (turns as Turn[]).filter((turn) => typeof turn?.question === "string") : [];
  } catch {
    return [];
  }
}

export function keep(model: string, turns: Turn[]): void {
  const text = JSON.stringify(turns.slice(-TURNS_MAX));
  if (text.length > KEPT_CHARACTERS_MAX) return;
  try {
    sessionStorage.setItem(placeOf(model), text);
  } catch {
    // No room, or not allowed: the conversation lasts as long as the page.
  }
}
