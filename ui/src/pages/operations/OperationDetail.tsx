// One operation in full: its facts, nodes, log and request, also long after its end.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";
import { operation as operationQuery } from "@/api/queries";
import type { OperationDetailOut } from "@/api/schema";
import { IconButton } from "@/kit/Button";
import { Progress } from "@/kit/measures";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill } from "@/kit/status";
import { readOperationRate } from "@/live/operationRates";
import { Actions } from "@/pages/operations/Actions";
import { Log } from "@/pages/operations/Log";
import type { OperationFilter } from "@/pages/operations/sections";
import { Targets } from "@/pages/operations/Targets";
import { TransferAmount } from "@/pages/operations/TransferAmount";
import { formatMoment, percent } from "@/text/format";
import {
  computeProgress,
  describeDetail,
  describeDuration,
  describeFault,
  describeVerb,
  stateWord,
  subject,
} from "@/text/operation";
import { isActive } from "@/text/operationStates";

interface OperationDetailProps {
  id: string;
  filter: OperationFilter;
  onClose: () => void;
}

export function OperationDetail({ id, filter, onClose }: OperationDetailProps) {
  const query = useQuery(operationQuery(id));
  const heading = useRef<HTMLHeadingElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another operation is another panel
  useEffect(() => heading.current?.focus(), [id]);
  return (
    <aside
      className="panel operations-detail"
      aria-label="Operation details"
      onKeyDown={(event) => {
        // An open dialog of this panel handles Escape itself.
        if (event.key === "Escape" && !(event.target as Element).closest("dialog")) onClose();
      }}
    >
      <header className="operations-detail-head">
        <h2 ref={heading} tabIndex={-1}>
          {query.data ? `${describeVerb(query.data)} ${subject(query.data)}` : "Operation"}
        </h2>
        <IconButton icon="cross" label="Close the operation" onClick={onClose} />
      </header>
      <QueryView query={query}>
        {(operation) => <DetailBody operation={operation} filter={filter} />}
      </QueryView>
    </aside>
  );
}

function DetailBody({ operation, filter }: { operation: OperationDetailOut; filter: OperationFilter }) {
  const { text, tone } = stateWord(operation.state);
  const error = describeFault(operation);
  const nodes = operation.nodes ?? [];
  const value = computeProgress(operation);
  return (
    <>
      <div className="row apart">
        <Pill tone={tone}>{text}</Pill>
        <Actions operation={operation} />
      </div>
      {error ? (
        <p className="bad-text operations-fault">{error}</p>
      ) : (
        <p>{isActive(operation.state) ? describeDetail(operation) : operation.message}</p>
      )}
      {value !== undefined && (
        <>
          <div className="row apart">
            <TransferAmount
              current={operation.currentBytes}
              total={operation.totalBytes}
              pace={readOperationRate(operation)}
            />
            {value !== null && (
              <span className="number operations-percent">{percent(operation.progress)}</span>
            )}
          </div>
          <Progress value={value} label={`${describeVerb(operation)} ${subject(operation)}`} />
        </>
      )}
      {nodes.length > 0 && (
        <section className="stack tight">
          <h3>Nodes</h3>
          <Targets operation={operation.id} targets={nodes} withFaults={!error} />
        </section>
      )}
      <Facts operation={operation} filter={filter} />
      <section className="stack tight">
        <h3>Log</h3>
        <Log id={operation.id} />
      </section>
      <details>
        <summary>Request</summary>
        <pre className="operations-request">{JSON.stringify(operation.request, null, 2)}</pre>
      </details>
    </>
  );
}

function Facts({ operation, filter }: { operation: OperationDetailOut; filter: OperationFilter }) {
  const other = (id: string) => (
    <Link to="/operations" search={{ ...filter, operation: id }}>
      …{id.slice(-8)}
    </Link>
  );
  const time = describeDuration(operation);
  const facts: [string, ReactNode][] = [
    ["Requested", <RequestedBy key="requested" operation={operation} />],
    ["Started", operation.startedAt && formatMoment(operation.startedAt)],
    [
      "Ended",
      operation.finishedAt && `${formatMoment(operation.finishedAt)}${time ? `, after ${time}` : ""}`,
    ],
    ["Deadline", operation.deadlineAt && formatMoment(operation.deadlineAt)],
    ["Attempts", operation.attempt > 1 ? operation.attempt : null],
    ["Owner", operation.owner && <code key="owner">{operation.owner}</code>],
    ["Runs after", operation.afterID && other(operation.afterID)],
    ["Retry of", operation.retryOf && other(operation.retryOf)],
    [
      "Dismissed",
      operation.dismissedAt && `${formatMoment(operation.dismissedAt)} by ${operation.dismissedBy}`,
    ],
    ["Error code", operation.errorCode && <code key="code">{operation.errorCode}</code>],
    ["Id", <code key="id">{operation.id}</code>],
  ];
  return (
    <dl className="operations-facts">
      {facts
        .filter(([, value]) => value)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function RequestedBy({ operation }: { operation: OperationDetailOut }) {
  return (
    <>
      <RelativeTime at={operation.createdAt} /> by {operation.createdBy}
    </>
  );
}
