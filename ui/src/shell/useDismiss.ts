// Dismisses a failure for all users; it can be undone for a while.
import { useMutation } from "@tanstack/react-query";
import { asProblem } from "@/api/client";
import { runOperationAction, useInvalidateOperations } from "@/api/operations";
import { useToast } from "@/kit/toasts";
import { type NamedOperation, nameForActions } from "@/text/operation";

/** `ids`: this failure and the earlier ones that belong to it. They are dismissed and restored together. */
export function useDismiss(
  operation: NamedOperation & { id: string },
  ids: readonly string[] = [operation.id],
) {
  const showToast = useToast();
  const invalidate = useInvalidateOperations();
  const all = (what: "dismiss" | "undismiss") => (chosen: readonly string[]) =>
    Promise.all(chosen.map((id) => runOperationAction(id, what)));
  const undo = useMutation({
    mutationFn: all("undismiss"),
    onError: (error) => showToast(asProblem(error).message, "bad"),
    onSettled: invalidate,
  });
  const dismissing = useMutation({
    mutationFn: all("dismiss"),
    // The dismissed operations leave the list, and this component with them, so the ids are kept for the undo.
    onSuccess: (_, chosen) =>
      showToast(`Dismissed the failed ${nameForActions(operation)} for everybody.`, "good", {
        label: "Undo",
        onClick: () => undo.mutate(chosen),
      }),
    onSettled: invalidate,
  });
  return { dismiss: () => dismissing.mutate(ids), isPending: dismissing.isPending, error: dismissing.error };
}
