// One call to a model that may have to be installed and loaded first: its step, answer and error.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { ModelChoice } from "@/pages/playground/choices";
import { ensureModel, type SetupStep } from "@/pages/playground/modelSetup";

export function useModelCall<In, Out>(
  choice: ModelChoice,
  call: (input: In, signal: AbortSignal) => Promise<Out>,
) {
  const queries = useQueryClient();
  const [step, setStep] = useState<SetupStep | null>(null);
  const mutation = useMutation({
    mutationFn: async (input: In) => {
      const signal = new AbortController().signal;
      if (choice.entry) await ensureModel(queries, choice.entry, signal, setStep);
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
