// One operation that is under way or has failed: what, how far, on which nodes, and what can be done.
import { Link } from "@tanstack/react-router";
import { memo, useState } from "react";
import type { OperationOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Button } from "@/kit/Button";
import { Progress } from "@/kit/measures";
import { Pill, Tag } from "@/kit/status";
import { paceOf } from "@/live/paces";
import { Actions } from "@/pages/operations/Actions";
import { Amount } from "@/pages/operations/Amount";
import { type Filter, familyOf } from "@/pages/operations/sorting";
import { Targets } from "@/pages/operations/Targets";
import { percent, plural } from "@/text/format";
import { bar, called, detail, fault, stateWord, subject, verb } from "@/text/operation";

const OPEN_UP_TO = 4;
const FAMILIES = { models: "model", backends: "backend", cluster: "load" } as const;

interface CardProps {
  operation: OperationOut;
  filter: Filter;
  isOpen: boolean;
}

export const Card = memo(function Card({ operation, filter, isOpen }: CardProps) {
  const nodes = operation.nodes ?? [];
  const { text, tone } = stateWord(operation.state);
  const error = fault(operation);
  return (
    <li className={isOpen ? "panel operations-card open" : "panel operations-card"}>
      <div className="operations-head">
        <div className="operations-title">
          <h3>
            <Title id={operation.id} filter={filter} verb={verb(operation)} subject={subject(operation)} />
          </h3>
          <span className="row">
            {operation.state !== "running" && <Pill tone={tone}>{text}</Pill>}
            <Tag>{FAMILIES[familyOf(operation.kind)]}</Tag>
            {nodes.length > 1 && <Tag>{plural(nodes.length, "node")}</Tag>}
            {nodes.length === 1 && !operation.nodeName && <Tag>{nodes[0]?.node_name}</Tag>}
            <span className="small faint">
              <Ago at={operation.createdAt} /> by {operation.createdBy}
            </span>
          </span>
        </div>
        <Actions operation={operation} />
      </div>
      {error ? <p className="bad-text operations-fault">{error}</p> : <How operation={operation} />}
      {nodes.length > 1 && <Nodes operation={operation} />}
    </li>
  );
});

interface TitleProps {
  id: string;
  filter: Filter;
  verb: string;
  subject: string;
}

/** Apart, because a link costs more than the rest of a card, and it does not move. */
const Title = memo(function Title({ id, filter, verb: done, subject: what }: TitleProps) {
  return (
    <Link id={`operation-${id}`} to="/operations" search={{ ...filter, operation: id }}>
      <span className="operations-verb">{done}</span> {what}
    </Link>
  );
});

function How({ operation }: { operation: OperationOut }) {
  const value = bar(operation);
  const only = operation.nodes?.length === 1 ? operation.nodes[0] : undefined;
  return (
    <>
      <div className="row apart operations-how">
        <span>{detail(operation)}</span>
        {value !== undefined && (
          <span className="row">
            <Amount current={operation.currentBytes} total={operation.totalBytes} pace={paceOf(operation)} />
            {value !== null && (
              <span className="number operations-percent">{percent(operation.progress)}</span>
            )}
          </span>
        )}
      </div>
      {value !== undefined && <Progress value={value} label={`${verb(operation)} ${subject(operation)}`} />}
      {only?.error && <p className="small bad-text operations-fault">{only.error}</p>}
    </>
  );
}

function Nodes({ operation }: { operation: OperationOut }) {
  const nodes = operation.nodes ?? [];
  const [isShown, setShown] = useState(nodes.length <= OPEN_UP_TO);
  const count = plural(nodes.length, "node");
  return (
    <div>
      <Button
        small
        kind="quiet"
        icon={isShown ? "down" : "right"}
        aria-expanded={isShown}
        aria-label={`${isShown ? "Hide" : "Show"} ${count} of the ${called(operation)}`}
        onClick={() => setShown(!isShown)}
      >
        {isShown ? `Hide ${count}` : `Show ${count}`}
      </Button>
      {isShown && <Targets operation={operation.id} targets={nodes} withFaults={!operation.error} />}
    </div>
  );
}
