// Sends a message: installs the model if needed, waits while it loads, then streams the answer.
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import {
  type ChatParameters,
  type ChatUpdate,
  computeRetryDelay,
  makeChatBody,
  NO_FACTS,
  streamChat,
} from "@/pages/playground/chat";
import type { ModelChoice } from "@/pages/playground/choices";
import { makeMessages, readTurns, storeTurns, type Turn } from "@/pages/playground/conversation";
import { ensureModel, type SetupStep } from "@/pages/playground/modelSetup";

export interface Conversation {
  turns: Turn[];
  /** The current step of the last turn; null if it has ended. */
  step: SetupStep | null;
  error: unknown;
  send: (question: string) => void;
  stop: () => void;
  retry: () => void;
  clear: () => void;
}

export function useConversation(choice: ModelChoice | null, parameters: ChatParameters): Conversation {
  const queries = useQueryClient();
  const model = choice?.name ?? "";
  const [turns, setTurns] = useState<Turn[]>(() => readTurns(model));
  const [step, setStep] = useState<SetupStep | null>(null);
  const [error, setError] = useState<unknown>(null);
  const running = useRef<AbortController | null>(null);

  useEffect(() => {
    setTurns(readTurns(model));
    setError(null);
    return () => running.current?.abort();
  }, [model]);

  const run = useCallback(
    async (before: Turn[], question: string) => {
      if (!choice || running.current) return;
      const control = new AbortController();
      running.current = control;
      setError(null);
      let turn: Turn = { question, answer: "", facts: null };
      const show = (update: ChatUpdate) => {
        turn = { question, answer: update.text, facts: update.facts };
        setTurns([...before, turn]);
      };
      setTurns([...before, turn]);
      // A reload before the answer has ended keeps the question.
      storeTurns(choice.name, [...before, turn]);
      try {
        if (choice.entry) await ensureModel(queries, choice.entry, control.signal, setStep);
        setStep({ kind: "waiting" });
        const body = makeChatBody(choice.name, makeMessages(before, question), parameters);
        for await (const update of streamWithRetries(body, control.signal)) {
          setStep({ kind: "answering" });
          show(update);
        }
      } catch (failure) {
        if (control.signal.aborted)
          show({ text: turn.answer, facts: { ...(turn.facts ?? NO_FACTS), finish: "stopped" } });
        else setError(failure);
      } finally {
        running.current = null;
        setStep(null);
        storeTurns(choice.name, [...before, turn]);
        void queries.invalidateQueries({ queryKey: ["models", "capabilities"] });
      }
    },
    [choice, parameters, queries],
  );
  return {
    turns,
    step,
    error,
    send: (question) => void run(turns, question),
    stop: () => running.current?.abort(),
    retry: () => {
      const last = turns.at(-1);
      if (last) void run(turns.slice(0, -1), last.question);
    },
    clear: () => {
      running.current?.abort();
      setTurns([]);
      setError(null);
      storeTurns(model, []);
    },
  };
}

/** Streams a chat, and sends it again while the model loads: a load may take longer than the server lets a request wait. */
async function* streamWithRetries(
  body: Record<string, unknown>,
  signal: AbortSignal,
): AsyncGenerator<ChatUpdate> {
  for (;;) {
    try {
      yield* streamChat(body, signal);
      return;
    } catch (failure) {
      const seconds = computeRetryDelay(failure);
      if (seconds === null || signal.aborted) throw failure;
      await new Promise((resolve) => window.setTimeout(resolve, seconds * 1000));
    }
  }
}
