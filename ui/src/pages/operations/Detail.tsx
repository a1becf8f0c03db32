// One operation in full: its facts, its nodes, its log, and exactly what was asked for. Also long after its end.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";
import { operation as operationQuery } from "@/api/queries";
import type { OperationInFull } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Answered } from "@/kit/Answered";
import { IconButton } from "@/kit/Button";
import { Progress } from "@/kit/measures";
import { Pill } from "@/kit/status";
import { paceOf } from "@/live/paces";
import { Actions } from "@/pages/operations/Actions";
import { Amount } from "@/pages/operations/Amount";
import { Log } from "@/pages/operations/Log";
import type { Filter } from "@/pages/operations/sorting";
import { Targets } from "@/pages/operations/Targets";
import { clock, percent } from "@/text/format";
import { bar, detail, fault, isUnderWay, stateWord, subject, took, verb } from "@/text/operation";

interface DetailProps {
  id: string;
  filter: Filter;
  onClose: () => void;
}

export function Detail({ id, filter, onClose }: DetailProps) {
  const query = useQuery(operationQuery(id));
  const heading = useRef<HTMLHeadingElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another operation is another panel
  useEffect(() => heading.current?.focus(), [id]);
  return (
    <aside
      className="panel operations-detail"
      aria-label="The operation in full"
      onKeyDown={(event) => {
        // A dialog of this panel closes itself first.
        if (event.key === "Escape" && !(event.target as Element).closest("dialog")) onClose();
      }}
    >
      <header className="operations-detail-head">
        <h2 ref={heading} tabIndex={-1}>
          {query.data ? `${verb(query.data)} ${subject(query.data)}` : "Operation"}
        </h2>
        <IconButton icon="cross" label="Close the operation" onClick={onClose} />
      </header>
      <Answered query={query}>{(operation) => <InFull operation={operation} filter={filter} />}</Answered>
    </aside>
  );
}

function InFull({ operation, filter }: { operation: OperationInFull; filter: Filter }) {
  const { text, tone } = stateWord(operation.state);
  const error = fault(operation);
  const nodes = operation.nodes ?? [];
  const value = bar(operation);
  return (
    <>
      <div className="row apart">
        <Pill tone={tone}>{text}</Pill>
        <Actions operation={operation} />
      </div>
      {error ? (
        <p className="bad-text operations-fault">{error}</p>
      ) : (
        <p>{isUnderWay(operation.state) ? detail(operation) : operation.message}</p>
      )}
      {value !== undefined && (
        <>
          <div className="row apart">
            <Amount current={operation.currentBytes} total={operation.totalBytes} pace={paceOf(operation)} />
            {value !== null && (
              <span className="number operations-percent">{percent(operation.progress)}</span>
            )}
          </div>
          <Progress value={value} label={`${verb(operation)} ${subject(operation)}`} />
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
        <summary>What was asked for</summary>
        <pre className="operations-request">{JSON.stringify(operation.request, null, 2)}</pre>
      </details>
    </>
  );
}

function Facts({ operation, filter }: { operation: OperationInFull; filter: Filter }) {
  const other = (id: string) => (
    <Link to="/operations" search={{ ...filter, operation: id }}>
      …{id.slice(-8)}
    </Link>
  );
  const time = took(operation);
  const facts: [string, ReactNode][] = [
    ["Asked for", <Asked key="asked" operation={operation} />],
    ["Started", operation.startedAt && clock(operation.startedAt)],
    ["Ended", operation.finishedAt && `${clock(operation.finishedAt)}${time ? `, after ${time}` : ""}`],
    ["Deadline", operation.deadlineAt && clock(operation.deadlineAt)],
    ["Attempts", operation.attempt > 1 ? operation.attempt : null],
    ["Driven by", operation.owner && <code key="owner">{operation.owner}</code>],
    ["After", operation.afterID && other(operation.afterID)],
    ["Retry of", operation.retryOf && other(operation.retryOf)],
    ["Dismissed", operation.dismissedAt && `${clock(operation.dismissedAt)} by ${operation.dismissedBy}`],
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

function Asked({ operation }: { operation: OperationInFull }) {
  return (
    <>
      <Ago at={operation.createdAt} /> by {operation.createdBy}
    </>
  );
}
