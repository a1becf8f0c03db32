// The nodes of an operation, each with its own progress; those of a rolling upgrade by wave.
import { Link } from "@tanstack/react-router";
import { memo } from "react";
import type { TargetOut } from "@/api/schema";
import { Progress } from "@/kit/measures";
import { Pill } from "@/kit/status";
import { readTargetRate } from "@/live/operationRates";
import { groupTitledWaves } from "@/pages/operations/sections";
import { TransferAmount } from "@/pages/operations/TransferAmount";
import { percent } from "@/text/format";
import { targetWord } from "@/text/operation";

interface TargetsProps {
  operation: string;
  targets: readonly TargetOut[];
  /** Whether errors are shown; false where they are shown above already. */
  withFaults?: boolean;
}

export function Targets({ operation, targets, withFaults = true }: TargetsProps) {
  return (
    <div className="operations-targets">
      {groupTitledWaves(targets).map(({ wave, title, targets: inIt }) => (
        <div key={wave} className="operations-wave">
          {title && <h4>{title}</h4>}
          <ul className="plain">
            {inIt.map((target) => (
              <Target key={target.node_id} operation={operation} target={target} withFault={withFaults} />
            ))}
          </ul>
        </div>
      ))}
    </div>
  );
}

interface TargetProps {
  operation: string;
  target: TargetOut;
  withFault: boolean;
}

const Target = memo(function Target({ operation, target, withFault }: TargetProps) {
  const { text, tone } = targetWord(target);
  const isMoving = target.state === "working" || target.state === "unconfirmed";
  return (
    <li className="operations-target">
      <NodeLink name={target.node_name} />
      <Pill tone={tone}>{text}</Pill>
      <span className="operations-numbers">
        {isMoving && (
          <TransferAmount
            current={target.current}
            total={target.total}
            pace={readTargetRate(operation, target)}
          />
        )}
        <Versions target={target} />
        {isMoving && target.percentage > 0 && (
          <span className="number operations-percent">{percent(target.percentage)}</span>
        )}
      </span>
      {isMoving && (
        <Progress
          value={target.percentage > 0 ? target.percentage : null}
          label={`${target.node_name}: ${text}`}
        />
      )}
      {withFault && target.error && (
        <p className={`small operations-fault ${target.state === "skipped" ? "soft" : "bad-text"}`}>
          {target.error}
        </p>
      )}
    </li>
  );
});

/** Memoised, because rendering a link costs more than the rest of a row, and names do not change. */
const NodeLink = memo(function NodeLink({ name }: { name: string }) {
  return (
    <Link to="/nodes/$node" params={{ node: name }} className="operations-node cut">
      {name}
    </Link>
  );
});

function Versions({ target }: { target: TargetOut }) {
  if (!target.version) return null;
  const isChange = target.previous_version !== "" && target.previous_version !== target.version;
  return (
    <span className="number soft">
      {isChange ? `${target.previous_version} → ${target.version}` : target.version}
    </span>
  );
}
