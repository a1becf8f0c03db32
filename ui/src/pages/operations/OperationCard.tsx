// The card of an active or failed operation: its progress, nodes and actions.
import { Link } from "@tanstack/react-router";
import { memo, useState } from "react";
import type { OperationOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Progress } from "@/kit/measures";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { readOperationRate } from "@/live/operationRates";
import { Actions } from "@/pages/operations/Actions";
import { findFamily, type OperationFilter } from "@/pages/operations/sections";
import { Targets } from "@/pages/operations/Targets";
import { TransferAmount } from "@/pages/operations/TransferAmount";
import { percent, plural } from "@/text/format";
import {
  computeProgress,
  describeDetail,
  describeFault,
  describeVerb,
  nameForActions,
  stateWord,
  subject,
} from "@/text/operation";

const NODES_SHOWN_MAX = 4;
const FAMILIES = { models: "model", backends: "backend", cluster: "load" } as const;

interface OperationCardProps {
  operation: OperationOut;
  filter: OperationFilter;
  isOpen: boolean;
}

export const OperationCard = memo(function Card({ operation, filter, isOpen }: OperationCardProps) {
  const nodes = operation.nodes ?? [];
  const { text, tone } = stateWord(operation.state);
  const error = describeFault(operation);
  return (
    <li className={isOpen ? "panel operations-card open" : "panel operations-card"}>
      <div className="operations-head">
        <div className="operations-title">
          <h3>
            <CardTitle
              id={operation.id}
              filter={filter}
              verb={describeVerb(operation)}
              subject={subject(operation)}
            />
          </h3>
          <span className="row">
            {operation.state !== "running" && <Pill tone={tone}>{text}</Pill>}
            <Tag>{FAMILIES[findFamily(operation.kind)]}</Tag>
            {nodes.length > 1 && <Tag>{plural(nodes.length, "node")}</Tag>}
            {nodes.length === 1 && !operation.nodeName && <Tag>{nodes[0]?.node_name}</Tag>}
            <span className="small faint">
              <RelativeTime at={operation.createdAt} /> by {operation.createdBy}
            </span>
          </span>
        </div>
        <Actions operation={operation} />
      </div>
      {error ? <p className="bad-text operations-fault">{error}</p> : <ProgressLine operation={operation} />}
      {nodes.length > 1 && <Nodes operation={operation} />}
    </li>
  );
});

interface CardTitleProps {
  id: string;
  filter: OperationFilter;
  verb: string;
  subject: string;
}

/** Memoised, because rendering a link costs more than the rest of a card and its text does not change. */
const CardTitle = memo(function CardTitle({ id, filter, verb: done, subject: what }: CardTitleProps) {
  return (
    <Link id={`operation-${id}`} to="/operations" search={{ ...filter, operation: id }}>
      <span className="operations-verb">{done}</span> {what}
    </Link>
  );
});

function ProgressLine({ operation }: { operation: OperationOut }) {
  const value = computeProgress(operation);
  const only = operation.nodes?.length === 1 ? operation.nodes[0] : undefined;
  return (
    <>
      <div className="row apart operations-how">
        <span>{describeDetail(operation)}</span>
        {value !== undefined && (
          <span className="row">
            <TransferAmount
              current={operation.currentBytes}
              total={operation.totalBytes}
              pace={readOperationRate(operation)}
            />
            {value !== null && (
              <span className="number operations-percent">{percent(operation.progress)}</span>
            )}
          </span>
        )}
      </div>
      {value !== undefined && (
        <Progress value={value} label={`${describeVerb(operation)} ${subject(operation)}`} />
      )}
      {only?.error && <p className="small bad-text operations-fault">{only.error}</p>}
    </>
  );
}

function Nodes({ operation }: { operation: OperationOut }) {
  const nodes = operation.nodes ?? [];
  const [isShown, setShown] = useState(nodes.length <= NODES_SHOWN_MAX);
  const count = plural(nodes.length, "node");
  return (
    <div>
      <Button
        small
        kind="quiet"
        icon={isShown ? "down" : "right"}
        aria-expanded={isShown}
        aria-label={`${isShown ? "Hide" : "Show"} ${count} of the ${nameForActions(operation)}`}
        onClick={() => setShown(!isShown)}
      >
        {isShown ? `Hide ${count}` : `Show ${count}`}
      </Button>
      {isShown && <Targets operation={operation.id} targets={nodes} withFaults={!operation.error} />}
    </div>
  );
}
