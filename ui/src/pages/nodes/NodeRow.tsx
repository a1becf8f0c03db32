// One machine of the roster.
import { Link } from "@tanstack/react-router";
import { memo } from "react";
import type { NodeOut, OperationOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Menu } from "@/kit/Menu";
import { Meter, Progress } from "@/kit/measures";
import { NodeStatus, Tag } from "@/kit/status";
import type { Chip } from "@/pages/nodes/roster";
import { useNodeActions } from "@/pages/nodes/useNodeActions";
import { hardwareOf, usedOf } from "@/pages/nodes/words";
import { bytesOf } from "@/text/format";

interface NodeRowProps {
  node: NodeOut;
  chips: Chip[];
  /** What is being done on this node, and only on what it is done. */
  operation: OperationOut | undefined;
}

export const NodeRow = memo(function NodeRow({ node, chips, operation }: NodeRowProps) {
  const actions = useNodeActions(node);
  return (
    <li className="nodes-row panel">
      <div className="nodes-who">
        <div className="row">
          <Link to="/nodes/$node" params={{ node: node.id }} className="nodes-name">
            {node.name}
          </Link>
          <NodeStatus status={node.status} reason={node.status_reason} />
        </div>
        <p className="small soft">{hardwareOf(node) || node.address}</p>
        {node.status !== "healthy" && <p className="small">{node.status_reason}</p>}
      </div>
      <Meters node={node} />
      <div className="nodes-work">
        <div className="row">
          {chips.map((chip) => (
            <Tag
              key={chip.id}
              tone={chip.state === "loaded" ? "good" : "busy"}
              title={`${chip.model}: ${chip.state}`}
            >
              {chip.model}
              {chip.index > 0 && `#${chip.index}`}
              {chip.state !== "loaded" && ` ${chip.state}`}
            </Tag>
          ))}
          {chips.length === 0 && <span className="small faint">no replicas</span>}
        </div>
        {(node.in_flight_count ?? 0) > 0 && (
          <span className="small number">{node.in_flight_count} in flight</span>
        )}
        {operation && <Under operation={operation} node={node} />}
      </div>
      <div className="row nodes-actions">
        {node.status === "pending" && (
          <Button kind="primary" small aria-label={`Approve ${node.name}`} onClick={actions.approve}>
            Approve
          </Button>
        )}
        <Menu label={`More about ${node.name}`} items={actions.items} />
      </div>
      {actions.dialog}
    </li>
  );
});

function Meters({ node }: { node: NodeOut }) {
  const vram = usedOf(node.total_vram, node.reported_available_vram ?? node.available_vram);
  const ram = usedOf(node.total_ram, node.available_ram);
  const disk = usedOf(node.total_disk, node.available_disk);
  return (
    <div className="nodes-meters">
      {(node.total_vram ?? 0) > 0 && (
        <Meter
          label="VRAM"
          used={vram}
          total={node.total_vram}
          reserved={node.reserved_vram ?? 0}
          text={bytesOf(vram, node.total_vram)}
        />
      )}
      <Meter label="RAM" used={ram} total={node.total_ram} text={bytesOf(ram, node.total_ram)} />
      <Meter label="Disk" used={disk} total={node.total_disk} text={bytesOf(disk, node.total_disk)} />
    </div>
  );
}

function Under({ operation, node }: { operation: OperationOut; node: NodeOut }) {
  const target = operation.nodes?.find((one) => one.node_id === node.id);
  const isFailed = target?.state === "error";
  return (
    <Link to="/operations" search={{ operation: operation.id }} className="small nodes-under">
      <span className={isFailed ? "bad-text" : undefined}>
        {isFailed ? target?.error : `${operation.taskType} of ${operation.name}`}
      </span>
      {!isFailed && (
        <Progress value={target?.percentage ?? null} label={`${operation.name} on ${node.name}`} />
      )}
    </Link>
  );
}
