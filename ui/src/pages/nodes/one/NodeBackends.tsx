// The backends that are installed on this node, with their actions.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { operations, upgrades } from "@/api/queries";
import type { BackendUpgradeOut, NodeBackendOut, NodeOut, OperationOut } from "@/api/schema";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Menu } from "@/kit/Menu";
import { EmptyState, Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Tag } from "@/kit/status";
import { findUpgrade } from "@/pages/backends/versions";
import { changeBackend, type NodeBackendVerb } from "@/pages/nodes/calls";
import { NodeOperation } from "@/pages/nodes/NodeOperation";
import { backendOffers, describeConsequence, findOperation } from "@/pages/nodes/one/backendOffers";
import { backendsQuery } from "@/pages/nodes/one/queries";
import { shortDigest } from "@/pages/nodes/one/words";
import { bytes } from "@/text/format";

interface ConfirmedChange {
  verb: NodeBackendVerb;
  label: string;
  backend: NodeBackendOut;
}

export function NodeBackends({ node }: { node: NodeOut }) {
  const found = useQuery(backendsQuery(node.id));
  const { data: newer } = useQuery(upgrades);
  const { data: allOperations } = useQuery(operations);
  const queries = useQueryClient();
  const [confirmed, setConfirmed] = useState<ConfirmedChange | null>(null);
  const confirm = async ({ verb, backend }: ConfirmedChange) => {
    await changeBackend(node.id, verb, backend.name);
    await queries.invalidateQueries({ queryKey: ["operations"] });
  };
  return (
    <Panel
      title="Backends"
      note="As the node last reported them."
      actions={
        <Link className="button plain" to="/backends" search={{ view: "catalog", target: node.name }}>
          Add a backend
        </Link>
      }
    >
      <QueryView query={found}>
        {(all) =>
          all.length === 0 ? (
            <EmptyState title="No backends installed.">
              Loading a model installs its backend; you can also add one now.
            </EmptyState>
          ) : (
            <ul className="plain node-backends">
              {all.map((backend) => (
                <BackendRow
                  key={backend.name}
                  node={node}
                  backend={backend}
                  available={newerThan(backend, newer)}
                  operation={findOperation(allOperations ?? [], node.id, backend)}
                  onChoose={(verb, label) => setConfirmed({ verb, label, backend })}
                />
              ))}
            </ul>
          )
        }
      </QueryView>
      {confirmed && (
        <ConfirmDialog
          title={`${confirmed.label} on ${node.name}?`}
          verb={confirmed.label}
          danger={confirmed.verb === "delete"}
          onClose={() => setConfirmed(null)}
          onConfirm={() => confirm(confirmed)}
        >
          {describeConsequence(confirmed.verb, confirmed.backend)}
        </ConfirmDialog>
      )}
    </Panel>
  );
}

function newerThan(
  backend: NodeBackendOut,
  newer: Readonly<Record<string, BackendUpgradeOut>> | undefined,
): string {
  const found = newer?.[backend.name];
  return found ? findUpgrade(found, backend) : "";
}

interface BackendRowProps {
  node: NodeOut;
  backend: NodeBackendOut;
  available: string;
  operation: OperationOut | undefined;
  onChoose: (verb: NodeBackendVerb, label: string) => void;
}

function BackendRow({ node, backend, available, operation, onChoose }: BackendRowProps) {
  const offers = backendOffers(backend, available);
  return (
    <li aria-label={backend.name}>
      <div className="stack tight">
        <div className="row">
          <Link to="/backends" search={{ backend: backend.meta || backend.name }} className="nodes-name">
            {backend.name}
          </Link>
          <Tag>{backend.version || "no version"}</Tag>
          {available && <Tag tone="warn">{available} available</Tag>}
          {backend.is_system && (
            <Tag title="Installed with the machine; Corral never changes it.">system</Tag>
          )}
        </div>
        <p className="small soft node-facts">
          {backend.digest && (
            <span title={backend.digest}>
              digest <code>{shortDigest(backend.digest)}</code>
            </span>
          )}
          {backend.size_bytes != null && <span>{bytes(backend.size_bytes)}</span>}
          {backend.installed_at && (
            <span>
              installed <RelativeTime at={backend.installed_at} />
            </span>
          )}
          {backend.previous_version && <span>previously {backend.previous_version}</span>}
          {backend.gallery && <span>from {backend.gallery}</span>}
        </p>
        {operation && <NodeOperation operation={operation} node={node} />}
      </div>
      {offers.length > 0 && (
        <Menu
          label={`Change ${backend.name}`}
          items={offers.map((offer) => ({ ...offer, onSelect: () => onChoose(offer.verb, offer.label) }))}
        />
      )}
    </li>
  );
}
