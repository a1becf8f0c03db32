// Dismissing a failure holds for everybody, so it can be taken back for a while.
import { useMutation } from "@tanstack/react-query";
import { asProblem } from "@/api/client";
import { act, useMadeOld } from "@/api/operations";
import { useToast } from "@/kit/toasts";
import { called, type Named } from "@/text/operation";

/** `ids`: this failure, and those before it that go with it. They are dismissed and taken back together. */
export function useDismiss(operation: Named & { id: string }, ids: readonly string[] = [operation.id]) {
  const say = useToast();
  const madeOld = useMadeOld();
  const all = (what: "dismiss" | "undismiss") => (chosen: readonly string[]) =>
    Promise.all(chosen.map((id) => act(id, what)));
  const undo = useMutation({
    mutationFn: all("undismiss"),
    onError: (error) => say(asProblem(error).message, "bad"),
    onSettled: madeOld,
  });
  const dismissing = useMutation({
    mutationFn: all("dismiss"),
    // What was dismissed leaves the list, and this with it: the ids of now are kept for the undo.
    onSuccess: (_, chosen) =>
      say(`Dismissed the failed ${called(operation)} for everybody.`, "good", {
        label: "Undo",
        onClick: () => undo.mutate(chosen),
      }),
    onSettled: madeOld,
  });
  return { dismiss: () => dismissing.mutate(ids), isPending: dismissing.isPending, error: dismissing.error };
}
