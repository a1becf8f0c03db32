// The progress of an operation about a model: its step, message and nodes. It is followed without a deadline.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { runOperationAction } from "@/api/operations";
import { operations } from "@/api/queries";
import type { OperationOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Icon } from "@/kit/icons";
import { Progress } from "@/kit/measures";
import { findStep, headline, STEPS } from "@/pages/models/phases";
import { listSameFailures } from "@/pages/models/state";
import { useDismiss } from "@/shell/useDismiss";
import { bytesOf, percent } from "@/text/format";
import { phaseWord, targetWord } from "@/text/operation";
import { isFinished } from "@/text/operationStates";

export function ModelOperation({ operation, nodes = true }: { operation: OperationOut; nodes?: boolean }) {
  const isDone = isFinished(operation.state);
  const stop = useMutation({ mutationFn: () => runOperationAction(operation.id, "cancel") });
  const step = findStep(operation);
  if (operation.state === "failed") return <FailedOperation operation={operation} />;
  return (
    <div className="models-way">
      <div className="row apart">
        <strong role="status">{headline(operation)}</strong>
        <span className="row">
          {!isDone && operation.progress > 0 && (
            <span className="number soft">{percent(operation.progress)}</span>
          )}
          {operation.cancellable && !isDone && (
            <Button
              small
              kind="quiet"
              busy={stop.isPending}
              aria-label={`Cancel: ${headline(operation)}`}
              onClick={() => stop.mutate()}
            >
              Cancel
            </Button>
          )}
        </span>
      </div>
      {step !== null && !isDone && <Steps at={step} />}
      {!isDone && (
        <Progress
          value={operation.isQueued || !operation.progress ? null : operation.progress}
          label={headline(operation)}
        />
      )}
      <p className="small soft">{describeProgress(operation)}</p>
      {nodes && (operation.nodes?.length ?? 0) > 1 && <Targets operation={operation} />}
      <ErrorNotice error={stop.error} />
    </div>
  );
}

function describeProgress(operation: OperationOut): string {
  const moved =
    operation.currentBytes != null && operation.totalBytes
      ? bytesOf(operation.currentBytes, operation.totalBytes)
      : "";
  const text = operation.message || phaseWord(operation.phase);
  return [text, moved].filter(Boolean).join(" · ");
}

function Steps({ at }: { at: number }) {
  return (
    <ol className="plain models-steps" aria-label="Load steps">
      {STEPS.map((step, place) => (
        <li
          key={step}
          className={place < at ? "done" : place === at ? "now" : undefined}
          aria-current={place === at ? "step" : undefined}
        >
          {step}
        </li>
      ))}
    </ol>
  );
}

function Targets({ operation }: { operation: OperationOut }) {
  return (
    <ul className="plain models-targets small">
      {(operation.nodes ?? []).map((target) => (
        <li key={target.node_id} className="row apart">
          <span>{target.node_name}</span>
          <span className={target.state === "error" ? "bad-text" : "soft"}>
            {target.error ?? targetWord(target).text}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** A failure is shown until a user dismisses it. */
function FailedOperation({ operation }: { operation: OperationOut }) {
  const { data: all } = useQuery(operations);
  const ids = listSameFailures(operation, all);
  const dismissing = useDismiss(operation, ids);
  return (
    <div className="trouble" role="alert">
      <Icon name="warn" />
      <div>
        <p>
          <strong>{headline(operation)}</strong>
        </p>
        <p>{operation.error ?? operation.message}</p>
        <p className="small">
          <Link to="/operations" search={{ operation: operation.id }}>
            Log
          </Link>
          {ids.length > 1 && `. Failed ${ids.length} times.`}
        </p>
        <ErrorNotice error={dismissing.error} />
      </div>
      <Button
        small
        busy={dismissing.isPending}
        aria-label={`Dismiss: ${headline(operation)}`}
        onClick={dismissing.dismiss}
      >
        Dismiss
      </Button>
    </div>
  );
}
