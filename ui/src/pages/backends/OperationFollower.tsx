// Follows an operation by its id until it ends, without a deadline. Closing the dialog does not cancel it.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { runOperationAction } from "@/api/operations";
import { operation as oneOperation } from "@/api/queries";
import type { OperationDetailOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { QueryView } from "@/kit/QueryView";
import { makeSimpleChange, requestChange, retryOperation } from "@/pages/backends/calls";
import { TargetList } from "@/pages/backends/TargetList";
import { describeOperation, listOfferedRollbacks, makeRetryChange } from "@/pages/backends/targets";
import { operationsSearch } from "@/pages/operations/search";
import { plural } from "@/text/format";
import { isSettled } from "@/text/operationStates";

interface OperationFollowerProps {
  id: string;
  /** Called with the id of an operation that was started from this one and is followed from now on. */
  onNext: (id: string) => void;
  /** The node that the dialog is about. */
  only?: string;
  /** Whether several operations are followed, so that each needs a title. */
  hasTitle?: boolean;
}

export function OperationFollower({ id, onNext, only, hasTitle = false }: OperationFollowerProps) {
  const query = useQuery(oneOperation(id));
  return (
    <QueryView query={query}>
      {(operation) => (
        <FollowedOperation operation={operation} onNext={onNext} only={only} hasTitle={hasTitle} />
      )}
    </QueryView>
  );
}

interface FollowedOperationProps {
  operation: OperationDetailOut;
  onNext: (id: string) => void;
  only: string | undefined;
  hasTitle: boolean;
}

function FollowedOperation({ operation, onNext, only, hasTitle }: FollowedOperationProps) {
  const retryChange = operation.state === "failed" ? makeRetryChange(operation) : null;
  const rollbackNodes = listOfferedRollbacks(operation, only);
  const stopping = useMutation({ mutationFn: () => runOperationAction(operation.id, "cancel") });
  const retrying = useMutation({
    mutationFn: async () => {
      if (!retryChange) throw new Error("No nodes have failed.");
      const admitted = await requestChange(retryChange);
      await runOperationAction(operation.id, "dismiss").catch(() => undefined);
      return admitted;
    },
    onSuccess: (admitted) => onNext(admitted.id),
  });
  const returning = useMutation({
    mutationFn: () => requestChange(makeSimpleChange("rollback", operation.name, rollbackNodes)),
    onSuccess: (admitted) => onNext(admitted.id),
  });
  const requesting = useMutation({
    mutationFn: () => retryOperation(operation.id),
    onSuccess: (admitted) => onNext(admitted.id),
  });
  return (
    <div className="stack tight backends-follow" data-state={operation.state}>
      {hasTitle && <h3>{operation.name}</h3>}
      <p role="status" aria-live="polite" className={operation.state === "failed" ? "bad-text" : ""}>
        <strong>{describeOperation(operation)}</strong>
      </p>
      <TargetList operation={operation} only={only} />
      <div className="row">
        {operation.cancellable && !isSettled(operation.state) && (
          <Button small icon="stop" busy={stopping.isPending} onClick={() => stopping.mutate()}>
            Cancel this operation
          </Button>
        )}
        {retryChange && (
          <Button
            small
            kind="primary"
            icon="again"
            busy={retrying.isPending}
            onClick={() => retrying.mutate()}
          >
            Retry on {plural(retryChange.nodes?.length ?? 0, "node")}
          </Button>
        )}
        {(operation.state === "cancelled" || (operation.state === "failed" && !retryChange)) && (
          <Button small icon="again" busy={requesting.isPending} onClick={() => requesting.mutate()}>
            Retry
          </Button>
        )}
        {rollbackNodes.length > 0 && (
          <Button small busy={returning.isPending} onClick={() => returning.mutate()}>
            Roll back {plural(rollbackNodes.length, "node")}
          </Button>
        )}
        <Link to="/operations" search={operationsSearch({ operation: operation.id })} className="small">
          View log
        </Link>
        {!isSettled(operation.state) && (
          <span className="small soft">The operation continues when you close this dialog.</span>
        )}
      </div>
      <ErrorNotice error={stopping.error ?? retrying.error ?? requesting.error ?? returning.error} />
    </div>
  );
}
