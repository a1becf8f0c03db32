// An operation about a model as it goes: its step, its words, its nodes. It never gives up watching.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { operations } from "@/api/queries";
import type { OperationOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { Progress } from "@/kit/measures";
import { Trouble } from "@/kit/Trouble";
import { cancel } from "@/pages/models/calls";
import { headline, phaseWord, STEPS, stepOf, targetWord } from "@/pages/models/phases";
import { hasEnded, sameFailures } from "@/pages/models/state";
import { useDismiss } from "@/shell/useDismiss";
import { bytesOf, percent } from "@/text/format";

export function UnderWay({ operation, nodes = true }: { operation: OperationOut; nodes?: boolean }) {
  const isOver = hasEnded(operation);
  const stop = useMutation({ mutationFn: () => cancel(operation.id) });
  const step = stepOf(operation);
  if (operation.state === "failed") return <Failed operation={operation} />;
  return (
    <div className="models-way">
      <div className="row apart">
        <strong role="status">{headline(operation)}</strong>
        <span className="row">
          {!isOver && operation.progress > 0 && (
            <span className="number soft">{percent(operation.progress)}</span>
          )}
          {operation.cancellable && !isOver && (
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
      {step !== null && !isOver && <Steps at={step} />}
      {!isOver && (
        <Progress
          value={operation.isQueued || !operation.progress ? null : operation.progress}
          label={headline(operation)}
        />
      )}
      <p className="small soft">{told(operation)}</p>
      {nodes && (operation.nodes?.length ?? 0) > 1 && <Targets operation={operation} />}
      <Trouble error={stop.error} />
    </div>
  );
}

function told(operation: OperationOut): string {
  const moved =
    operation.currentBytes != null && operation.totalBytes
      ? bytesOf(operation.currentBytes, operation.totalBytes)
      : "";
  const said = operation.message || phaseWord(operation.phase);
  return [said, moved].filter(Boolean).join(" · ");
}

function Steps({ at }: { at: number }) {
  return (
    <ol className="plain models-steps" aria-label="Steps of the load">
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
            {target.error ?? targetWord(target)}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** A failure stays until somebody has seen it. */
function Failed({ operation }: { operation: OperationOut }) {
  const { data: all } = useQuery(operations);
  const ids = sameFailures(operation, all);
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
            What happened, step by step
          </Link>
          {ids.length > 1 && `. It has failed ${ids.length} times.`}
        </p>
        <Trouble error={dismissing.error} />
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
