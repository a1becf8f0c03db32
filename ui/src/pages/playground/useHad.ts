// One call to a model that may have to be installed and loaded first: its step, its answer, its problem.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Choice } from "@/pages/playground/choices";
import { have, type Step } from "@/pages/playground/having";

export function useHad<In, Out>(choice: Choice, call: (input: In, signal: AbortSignal) => Promise<Out>) {
  const queries = useQueryClient();
  const [step, setStep] = useState<Step | null>(null);
  const mutation = useMutation({
    mutationFn: async (input: In) => {
      const signal = new AbortController().signal;
      if (choice.entry) await have(queries, choice.entry, signal, setStep);
      setStep({ kind: "waiting" });
      return call(input, signal);
    },
    onSettled: () => {
      setStep(null);
      void queries.invalidateQueries({ queryKey: ["models", "capabilities"] });
    },
  });
  return { step, ...mutation };
}
