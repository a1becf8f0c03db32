// The backends that this node has, and what can be done with each here.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { operations, upgrades } from "@/api/queries";
import type { NodeBackendOut, NodeOut, OperationOut, UpgradeOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Answered } from "@/kit/Answered";
import { Confirm } from "@/kit/Confirm";
import { Menu } from "@/kit/Menu";
import { Empty, Panel } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import { upgradeOf } from "@/pages/backends/versions";
import { type BackendVerb, changeBackend } from "@/pages/nodes/calls";
import { backendOffers, consequence, operationOf } from "@/pages/nodes/one/backends";
import { backendsOf } from "@/pages/nodes/one/queries";
import { shortDigest } from "@/pages/nodes/one/words";
import { Under } from "@/pages/nodes/Under";
import { bytes } from "@/text/format";

interface Asked {
  verb: BackendVerb;
  label: string;
  backend: NodeBackendOut;
}

export function Backends({ node }: { node: NodeOut }) {
  const found = useQuery(backendsOf(node.id));
  const { data: newer } = useQuery(upgrades);
  const { data: going } = useQuery(operations);
  const queries = useQueryClient();
  const [asked, ask] = useState<Asked | null>(null);
  const confirm = async ({ verb, backend }: Asked) => {
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
      <Answered query={found}>
        {(all) =>
          all.length === 0 ? (
            <Empty title="No backend is installed here.">
              Models bring theirs when they are loaded; or add one now.
            </Empty>
          ) : (
            <ul className="plain node-backends">
              {all.map((backend) => (
                <Row
                  key={backend.name}
                  node={node}
                  backend={backend}
                  available={newerThan(backend, newer)}
                  operation={operationOf(going ?? [], node.id, backend)}
                  onAsk={(verb, label) => ask({ verb, label, backend })}
                />
              ))}
            </ul>
          )
        }
      </Answered>
      {asked && (
        <Confirm
          title={`${asked.label} on ${node.name}?`}
          verb={asked.label}
          danger={asked.verb === "delete"}
          onClose={() => ask(null)}
          onConfirm={() => confirm(asked)}
        >
          {consequence(asked.verb, asked.backend)}
        </Confirm>
      )}
    </Panel>
  );
}

function newerThan(backend: NodeBackendOut, newer: Readonly<Record<string, UpgradeOut>> | undefined): string {
  const found = newer?.[backend.name];
  return found ? upgradeOf(found, backend) : "";
}

interface RowProps {
  node: NodeOut;
  backend: NodeBackendOut;
  available: string;
  operation: OperationOut | undefined;
  onAsk: (verb: BackendVerb, label: string) => void;
}

function Row({ node, backend, available, operation, onAsk }: RowProps) {
  const offers = backendOffers(backend, available);
  return (
    <li aria-label={backend.name}>
      <div className="stack tight">
        <div className="row">
          <Link to="/backends" search={{ backend: backend.meta || backend.name }} className="nodes-name">
            {backend.name}
          </Link>
          <Tag>{backend.version || "no version"}</Tag>
          {available && <Tag tone="warn">{available} is there</Tag>}
          {backend.is_system && (
            <Tag title="It came with the machine; Corral never changes it.">of the machine</Tag>
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
              installed <Ago at={backend.installed_at} />
            </span>
          )}
          {backend.previous_version && <span>before it {backend.previous_version}</span>}
          {backend.gallery && <span>from {backend.gallery}</span>}
        </p>
        {operation && <Under operation={operation} node={node} />}
      </div>
      {offers.length > 0 && (
        <Menu
          label={`Change ${backend.name}`}
          items={offers.map((offer) => ({ ...offer, onSelect: () => onAsk(offer.verb, offer.label) }))}
        />
      )}
    </li>
  );
}
