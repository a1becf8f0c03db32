// One row of a list of runs.
import { Link } from "@tanstack/react-router";
import { memo } from "react";
import type { RunOut } from "@/api/schema";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { useHasScope } from "@/shell/me";
import { describeRun, describeRunKind, describeRunTime, describeUsage, nameRun, runWord } from "@/text/run";

interface RunRowProps {
  run: RunOut;
  withOwner?: boolean;
  /** Not on the page of the node itself. */
  withNode?: boolean;
}

export const RunRow = memo(function RunRow({ run, withOwner = false, withNode = true }: RunRowProps) {
  const { text, tone } = runWord(run.state);
  const facts = [describeRunTime(run), describeUsage(run.usage)].filter(Boolean).join(" · ");
  return (
    <li className="runs-row panel" aria-label={`${nameRun(run)}: ${text}`}>
      <div className="row runs-name">
        <Link to="/runs/$run" params={{ run: run.id }}>
          {nameRun(run)}
        </Link>
        <Tag>{describeRunKind(run.kind)}</Tag>
      </div>
      <div>
        <Pill tone={tone}>{text}</Pill>
      </div>
      <p className={`small runs-message ${tone === "bad" ? "bad-text" : "soft"}`}>{describeRun(run)}</p>
      <div className="small runs-facts">
        <span className="number">{facts}</span>
        <span className="faint">
          <RelativeTime at={run.created_at} />
          {withOwner && ` by ${run.owner_name}`}
          {withNode && run.node && (
            <>
              {" on "}
              <NodeName name={run.node} />
            </>
          )}
        </span>
      </div>
    </li>
  );
});

/** Only operators may see the page of a node. */
export function NodeName({ name }: { name: string }) {
  if (!useHasScope("operate")) return name;
  return (
    <Link to="/nodes/$node" params={{ node: name }}>
      {name}
    </Link>
  );
}
