// Asking: have the model first if it is not installed, wait while it loads, then take the answer as it is written.
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { ask, askAgainIn, bodyOf, NO_FACTS, type Parameters, type Said } from "@/pages/playground/chat";
import type { Choice } from "@/pages/playground/choices";
import { keep, kept, messagesOf, type Turn } from "@/pages/playground/conversation";
import { have, type Step } from "@/pages/playground/having";

export interface Conversation {
  turns: Turn[];
  /** What is being done for the last turn; null: nothing. */
  step: Step | null;
  error: unknown;
  send: (question: string) => void;
  stop: () => void;
  again: () => void;
  clear: () => void;
}

export function useConversation(choice: Choice | null, parameters: Parameters): Conversation {
  const queries = useQueryClient();
  const model = choice?.name ?? "";
  const [turns, setTurns] = useState<Turn[]>(() => kept(model));
  const [step, setStep] = useState<Step | null>(null);
  const [error, setError] = useState<unknown>(null);
  const going = useRef<AbortController | null>(null);

  useEffect(() => {
    setTurns(kept(model));
    setError(null);
    return () => going.current?.abort();
  }, [model]);

  const run = useCallback(
    async (before: Turn[], question: string) => {
      if (!choice || going.current) return;
      const control = new AbortController();
      going.current = control;
      setError(null);
      let turn: Turn = { question, answer: "", facts: null };
      const show = (said: Said) => {
        turn = { question, answer: said.text, facts: said.facts };
        setTurns([...before, turn]);
      };
      setTurns([...before, turn]);
      // A reload before the answer has ended keeps the question.
      keep(choice.name, [...before, turn]);
      try {
        if (choice.entry) await have(queries, choice.entry, control.signal, setStep);
        setStep({ kind: "waiting" });
        const body = bodyOf(choice.name, messagesOf(before, question), parameters);
        for await (const said of patiently(body, control.signal)) {
          setStep({ kind: "answering" });
          show(said);
        }
      } catch (failure) {
        if (control.signal.aborted)
          show({ text: turn.answer, facts: { ...(turn.facts ?? NO_FACTS), finish: "stopped" } });
        else setError(failure);
      } finally {
        going.current = null;
        setStep(null);
        keep(choice.name, [...before, turn]);
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
    stop: () => going.current?.abort(),
    again: () => {
      const last = turns.at(-1);
      if (last) void run(turns.slice(0, -1), last.question);
    },
    clear: () => {
      going.current?.abort();
      setTurns([]);
      setError(null);
      keep(model, []);
    },
  };
}

/** A load may take longer than the server lets a request wait: then the same is asked again. */
async function* patiently(body: Record<string, unknown>, signal: AbortSignal): AsyncGenerator<Said> {
  for (;;) {
    try {
      yield* ask(body, signal);
      return;
    } catch (failure) {
      const seconds = askAgainIn(failure);
      if (seconds === null || signal.aborted) throw failure;
      await new Promise((resolve) => window.setTimeout(resolve, seconds * 1000));
    }
  }
}
