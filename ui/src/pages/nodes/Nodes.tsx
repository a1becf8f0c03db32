// The list of nodes: hardware, memory use and current work of each.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { live, nodes, operations } from "@/api/queries";
import type { NodeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { SearchField, SegmentedControl } from "@/kit/fields";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { describeCapacity, type FleetSummary, statusWords, summariseFleet } from "@/pages/nodes/fleetSummary";
import { JoinDialog } from "@/pages/nodes/JoinDialog";
import { NodeRow } from "@/pages/nodes/NodeRow";
import {
  filterNodes,
  type NodeKind,
  type NodeStatusFilter,
  operationByNode,
  type ReplicaChip,
  replicasByNode,
} from "@/pages/nodes/nodeList";
import { STATUSES } from "@/pages/nodes/search";
import { useHasScope } from "@/shell/me";
import { bytesOf, plural } from "@/text/format";
import { findStateWord } from "@/text/stateWords";
import "@/pages/nodes/nodes.css";

const NONE: ReplicaChip[] = [];

export default function Nodes() {
  const { q = "", status, kind, join } = useSearch({ from: "/nodes" });
  const navigate = useNavigate({ from: "/nodes" });
  const isAdmin = useHasScope("admin");
  const query = useQuery(nodes);
  const fleet = summariseFleet(query.data ?? []);
  return (
    <>
      <PageHeader title="Nodes" note={query.data && <FleetSummaryLine fleet={fleet} />}>
        {isAdmin && (
          <Button
            kind="primary"
            icon="plus"
            onClick={() => void navigate({ search: (was) => ({ ...was, join: true }) })}
          >
            Add node
          </Button>
        )}
      </PageHeader>
      <div className="row nodes-filters">
        <SearchField
          label="Search by name, label or hardware"
          value={q}
          onChange={(term) =>
            void navigate({ search: (was) => ({ ...was, q: term || undefined }), replace: true })
          }
        />
        <SegmentedControl
          label="Status"
          value={status ?? "all"}
          options={[
            { value: "all" as const, label: "All", count: fleet.all },
            ...STATUSES.filter((word) => fleet.byStatus[word] || word === status).map((word) => ({
              value: word,
              label: findStateWord("node", word),
              count: fleet.byStatus[word] ?? 0,
            })),
          ]}
          onChange={(word) =>
            void navigate({ search: (was) => ({ ...was, status: word === "all" ? undefined : word }) })
          }
        />
        {(fleet.agents > 0 || kind) && (
          <SegmentedControl
            label="Kind"
            value={kind ?? "all"}
            options={[
              { value: "all" as const, label: "All" },
              { value: "backend" as const, label: "Backend", count: fleet.all - fleet.agents },
              { value: "agent" as const, label: "Agent", count: fleet.agents },
            ]}
            onChange={(word) =>
              void navigate({ search: (was) => ({ ...was, kind: word === "all" ? undefined : word }) })
            }
          />
        )}
      </div>
      <QueryView query={query}>
        {(all) => <NodeTable all={all} term={q} status={status} kind={kind} />}
      </QueryView>
      {join && isAdmin && query.data && (
        <JoinDialog
          known={query.data}
          onClose={() => void navigate({ search: (was) => ({ ...was, join: undefined }), replace: true })}
        />
      )}
    </>
  );
}

function FleetSummaryLine({ fleet }: { fleet: FleetSummary }) {
  const { vram } = fleet;
  const words = [
    plural(fleet.all, "node"),
    ...statusWords(fleet),
    fleet.agents > 0 && plural(fleet.agents, "agent node"),
    vram.total != null && `${bytesOf(vram.used, vram.total)} of VRAM in use ${describeCapacity(fleet)}`,
  ];
  return <>{words.filter(Boolean).join(" · ")}</>;
}

interface NodeTableProps {
  all: NodeOut[];
  term: string;
  status: NodeStatusFilter | undefined;
  kind: NodeKind | undefined;
}

function NodeTable({ all, term, status, kind }: NodeTableProps) {
  const { data: present } = useQuery(live);
  const { data: allOperations } = useQuery(operations);
  const chips = useMemo(() => replicasByNode(present), [present]);
  const byNode = useMemo(() => operationByNode(allOperations ?? []), [allOperations]);
  const shown = useMemo(() => filterNodes(all, term, status, kind), [all, term, status, kind]);
  if (all.length === 0) {
    return (
      <EmptyState title="No nodes yet.">
        An admin can add one here and gets a command to run on the machine.
      </EmptyState>
    );
  }
  if (shown.length === 0)
    return (
      <EmptyState title="No nodes match this filter.">Change the search, the status or the kind.</EmptyState>
    );
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
