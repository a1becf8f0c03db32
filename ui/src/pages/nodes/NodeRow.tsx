// One row of the list of nodes. Rendered only when its data has changed, because there may be hundreds.
import { Link } from "@tanstack/react-router";
import { memo, useRef } from "react";
import type { NodeOut, OperationOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Menu } from "@/kit/Menu";
import { Meter } from "@/kit/measures";
import { RelativeTime } from "@/kit/RelativeTime";
import { NodeStatus, Tag } from "@/kit/status";
import { hasCurrentHeartbeat, isAgent } from "@/pages/nodes/fleetSummary";
import { NodeOperation } from "@/pages/nodes/NodeOperation";
import { isSameChips, type ReplicaChip, sumInFlight } from "@/pages/nodes/nodeList";
import { useNodeActions } from "@/pages/nodes/useNodeActions";
import { computeUsed, describeHardware, describeReason } from "@/pages/nodes/words";
import { bytes, bytesOf, plural } from "@/text/format";
import { findStateWord } from "@/text/stateWords";

interface NodeRowProps {
  node: NodeOut;
  chips: ReplicaChip[];
  /** The operation that is active, or has failed, on this node. */
  operation: OperationOut | undefined;
}

export const NodeRow = memo(
  function NodeRow({ node, chips, operation }: NodeRowProps) {
    const actions = useNodeActions(node);
    const name = useRef<HTMLAnchorElement>(null);
    const inFlight = sumInFlight(chips);
    const approve = () => {
      // The button disappears after its success, so the focus moves to the row.
      name.current?.focus();
      actions.run("approve");
    };
    return (
      <li className="nodes-row panel" aria-label={node.name}>
        <div className="nodes-who">
          <div className="row">
            <Link ref={name} to="/nodes/$node" params={{ node: node.name }} className="nodes-name">
              {node.name}
            </Link>
            <NodeStatus status={node.status} reason={node.status_reason} />
            {isAgent(node) && <Tag title="Runs agents, no engines.">agent</Tag>}
          </div>
          <p className="small soft">{describeHardware(node) || node.address}</p>
          {node.status !== "healthy" && <p className="small">{describeReason(node)}</p>}
        </div>
        <Meters node={node} />
        <div className="nodes-work">
          {isAgent(node) ? (
            <span className="small faint">
              {node.max_runs ? `up to ${plural(node.max_runs, "run")} at a time` : "takes no runs"}
            </span>
          ) : (
            <Chips chips={chips} />
          )}
          {inFlight > 0 && <span className="small number">{inFlight} in flight</span>}
          {operation && <NodeOperation operation={operation} node={node} />}
        </div>
        <div className="row nodes-actions">
          {node.status === "pending" && (
            <Button
              kind="primary"
              small
              busy={actions.pending === "approve"}
              aria-label={`Approve ${node.name}`}
              onClick={approve}
            >
              {actions.pending === "approve" ? "Approving…" : "Approve"}
            </Button>
          )}
          <Menu label={`Actions for ${node.name}`} items={actions.items} />
        </div>
        {actions.dialog}
      </li>
    );
  },
  (before, after) =>
    before.node === after.node &&
    before.operation === after.operation &&
    isSameChips(before.chips, after.chips),
);

function Chips({ chips }: { chips: ReplicaChip[] }) {
  if (chips.length === 0) return <span className="small faint">no replicas</span>;
  return (
    <ul className="plain row" aria-label="Replicas">
      {chips.map((chip) => (
        <li key={chip.id} className="nodes-chip">
          <Tag tone={chip.state === "loaded" ? "good" : chip.state === "failed" ? "bad" : "busy"}>
            {chip.model}
            {chip.index > 0 && `#${chip.index}`} {findStateWord("replica", chip.state)}
          </Tag>
        </li>
      ))}
    </ul>
  );
}

export function Meters({ node }: { node: NodeOut }) {
  const vram = computeUsed(node.total_vram, node.reported_available_vram ?? node.available_vram);
  const ram = computeUsed(node.total_ram, node.available_ram);
  const disk = computeUsed(node.total_disk, node.available_disk);
  const promised = node.reserved_vram > 0 ? ` + ${bytes(node.reserved_vram)} reserved` : "";
  return (
    <div className={hasCurrentHeartbeat(node) ? "nodes-meters" : "nodes-meters nodes-stale"}>
      {!hasCurrentHeartbeat(node) && (
        <p className="small">
          {node.last_heartbeat ? (
            <>
              Last heartbeat <RelativeTime at={node.last_heartbeat} />. Values at that time:
            </>
          ) : (
            "No heartbeat yet."
          )}
        </p>
      )}
      {!isAgent(node) && (node.total_vram ?? 0) > 0 && (
        <Meter
          label="VRAM"
          used={vram}
          total={node.total_vram}
          reserved={node.reserved_vram}
          text={`${bytesOf(vram, node.total_vram)}${promised}`}
        />
      )}
      <Meter label="RAM" used={ram} total={node.total_ram} text={bytesOf(ram, node.total_ram)} />
      <Meter label="Disk" used={disk} total={node.total_disk} text={bytesOf(disk, node.total_disk)} />
    </div>
  );
}
