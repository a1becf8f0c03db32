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
  type Kind,
  operationByNode,
  replicasByNode,
  type Status,
  shownNodes,
} from "@/pages/nodes/roster";
import { STATUSES } from "@/pages/nodes/search";
import { statusWords, type Tally, tallyOf, thereWords } from "@/pages/nodes/tally";
import { useMay } from "@/shell/me";
import { bytesOf, plural } from "@/text/format";
import "@/pages/nodes/nodes.css";

const NONE: Chip[] = [];

export default function Nodes() {
  const { q = "", status, kind, join } = useSearch({ from: "/nodes" });
  const navigate = useNavigate({ from: "/nodes" });
  const isAdmin = useMay("admin");
  const asked = useQuery(nodes);
  const tally = tallyOf(asked.data ?? []);
  return (
    <>
      <PageHead title="Nodes" note={asked.data && <TallyLine tally={tally} />}>
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
            { value: "all" as const, label: "All", count: tally.all },
            ...STATUSES.filter((word) => tally.byStatus[word] || word === status).map((word) => ({
              value: word,
              label: word,
              count: tally.byStatus[word] ?? 0,
            })),
          ]}
          onChange={(word) =>
            void navigate({ search: (was) => ({ ...was, status: word === "all" ? undefined : word }) })
          }
        />
        {(tally.agents > 0 || kind) && (
          <Segments
            label="Kind"
            value={kind ?? "all"}
            options={[
              { value: "all" as const, label: "All" },
              { value: "backend" as const, label: "Backend", count: tally.all - tally.agents },
              { value: "agent" as const, label: "Agent", count: tally.agents },
            ]}
            onChange={(word) =>
              void navigate({ search: (was) => ({ ...was, kind: word === "all" ? undefined : word }) })
            }
          />
        )}
      </div>
      <Answered query={asked}>{(all) => <Roster all={all} term={q} status={status} kind={kind} />}</Answered>
      {join && isAdmin && asked.data && (
        <JoinDialog
          known={asked.data}
          onClose={() => void navigate({ search: (was) => ({ ...was, join: undefined }), replace: true })}
        />
      )}
    </>
  );
}

function TallyLine({ tally }: { tally: Tally }) {
  const { vram } = tally;
  const words = [
    plural(tally.all, "node"),
    ...statusWords(tally),
    tally.agents > 0 && plural(tally.agents, "agent node"),
    vram.total != null && `${bytesOf(vram.used, vram.total)} of VRAM in use ${thereWords(tally)}`,
  ];
  return <>{words.filter(Boolean).join(" · ")}</>;
}

interface RosterProps {
  all: NodeOut[];
  term: string;
  status: Status | undefined;
  kind: Kind | undefined;
}

function Roster({ all, term, status, kind }: RosterProps) {
  const { data: present } = useQuery(live);
  const { data: underway } = useQuery(operations);
  const chips = useMemo(() => replicasByNode(present), [present]);
  const byNode = useMemo(() => operationByNode(underway ?? []), [underway]);
  const shown = useMemo(() => shownNodes(all, term, status, kind), [all, term, status, kind]);
  if (all.length === 0) {
    return (
      <Empty title="No machine has joined yet.">
        An admin adds one here, and gets a command to run on it.
      </Empty>
    );
  }
  if (shown.length === 0)
    return <Empty title="No nodes match this filter.">Change the search, the status or the kind.</Empty>;
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
