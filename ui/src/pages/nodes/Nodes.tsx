// The roster: every machine, what it is, how full it is and what it does.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { live, nodes, operations } from "@/api/queries";
import type { NodeOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Search, Segments } from "@/kit/fields";
import { Empty, PageHead } from "@/kit/Panel";
import { JoinDialog } from "@/pages/nodes/JoinDialog";
import { NodeRow } from "@/pages/nodes/NodeRow";
import {
  type Chip,
  operationByNode,
  pulseOf,
  replicasByNode,
  type Status,
  shownNodes,
} from "@/pages/nodes/roster";
import { STATUSES } from "@/pages/nodes/search";
import { useMay } from "@/shell/me";
import { bytesOf, plural } from "@/text/format";
import "@/pages/nodes/nodes.css";

const NONE: Chip[] = [];

export default function Nodes() {
  const { q = "", status, join } = useSearch({ from: "/nodes" });
  const navigate = useNavigate({ from: "/nodes" });
  const isAdmin = useMay("admin");
  const asked = useQuery(nodes);
  const pulse = pulseOf(asked.data ?? []);
  return (
    <>
      <PageHead title="Nodes" note={asked.data && <PulseLine pulse={pulse} />}>
        {isAdmin && (
          <Button
            kind="primary"
            icon="plus"
            onClick={() => void navigate({ search: (was) => ({ ...was, join: true }) })}
          >
            Add a machine
          </Button>
        )}
      </PageHead>
      <div className="row nodes-filters">
        <Search
          label="Search by name, label or hardware"
          value={q}
          onChange={(term) =>
            void navigate({ search: (was) => ({ ...was, q: term || undefined }), replace: true })
          }
        />
        <Segments
          label="Status"
          value={status ?? "all"}
          options={[
            { value: "all" as const, label: "All", count: pulse.nodes },
            ...STATUSES.filter((word) => pulse.byStatus[word] || word === status).map((word) => ({
              value: word,
              label: word,
              count: pulse.byStatus[word] ?? 0,
            })),
          ]}
          onChange={(word) =>
            void navigate({ search: (was) => ({ ...was, status: word === "all" ? undefined : word }) })
          }
        />
      </div>
      <Answered query={asked}>{(all) => <Roster all={all} term={q} status={status} />}</Answered>
      {join && isAdmin && asked.data && (
        <JoinDialog
          known={asked.data}
          onClose={() => void navigate({ search: (was) => ({ ...was, join: undefined }), replace: true })}
        />
      )}
    </>
  );
}

function PulseLine({ pulse }: { pulse: ReturnType<typeof pulseOf> }) {
  const words = [
    plural(pulse.nodes, "node"),
    `${pulse.byStatus.healthy ?? 0} healthy`,
    pulse.byStatus.pending && `${pulse.byStatus.pending} waiting for approval`,
    pulse.byStatus.draining && `${pulse.byStatus.draining} draining`,
    pulse.vramTotal > 0 && `${bytesOf(pulse.vramUsed, pulse.vramTotal)} of VRAM in use`,
  ];
  return <>{words.filter(Boolean).join(" · ")}</>;
}

function Roster({ all, term, status }: { all: NodeOut[]; term: string; status: Status | undefined }) {
  const { data: present } = useQuery(live);
  const { data: underway } = useQuery(operations);
  const chips = useMemo(() => replicasByNode(present), [present]);
  const byNode = useMemo(() => operationByNode(underway ?? []), [underway]);
  const shown = useMemo(() => shownNodes(all, term, status), [all, term, status]);
  if (all.length === 0) {
    return (
      <Empty title="No machine has joined yet.">
        An admin adds one here, and gets a command to run on it.
      </Empty>
    );
  }
  if (shown.length === 0)
    return <Empty title="No node is like that.">Another word, or another status, finds more.</Empty>;
  return (
    <ul className="plain nodes-roster" aria-label="Nodes">
      {shown.map((node) => (
        <NodeRow
          key={node.id}
          node={node}
          chips={chips.get(node.name) ?? NONE}
          operation={byNode.get(node.id)}
        />
      ))}
    </ul>
  );
}
