// Dismissing a failure holds for everybody, so it can be taken back for a while.
import { useMutation } from "@tanstack/react-query";
import { asProblem } from "@/api/client";
import { act, useAct, useMadeOld } from "@/api/operations";
import { useToast } from "@/kit/toasts";
import { called, type Named } from "@/text/operation";

export function useDismiss(operation: Named & { id: string }) {
  const say = useToast();
  const acting = useAct(operation.id);
  const undo = useMutation({
    mutationFn: () => act(operation.id, "undismiss"),
    onError: (error) => say(asProblem(error).message, "bad"),
    onSettled: useMadeOld(),
  });
  const dismiss = () =>
    acting.mutate("dismiss", {
      onSuccess: () =>
        say(`Dismissed the failed ${called(operation)} for everybody.`, "good", {
          label: "Undo",
          onClick: () => undo.mutate(),
        }),
    });
  return { dismiss, isPending: acting.isPending, error: acting.error };
}
