// The dialog for every change of a backend: choose the nodes, see the plan, start, and follow the operation.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Problem } from "@/api/client";
import type { StrategyIn } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Checkbox, SegmentedControl, Select } from "@/kit/fields";
import { useSettled } from "@/kit/useSettled";
import { ALL_AT_ONCE, type BackendChange, planChange, requestChange } from "@/pages/backends/calls";
import { findEntry } from "@/pages/backends/listing";
import { NodePicker } from "@/pages/backends/NodePicker";
import { listCandidates } from "@/pages/backends/nodeChoice";
import { OperationFollower } from "@/pages/backends/OperationFollower";
import type { BackendVerb } from "@/pages/backends/offers";
import { PlanPreview } from "@/pages/backends/PlanPreview";
import { parseStrategy, type StrategyDraft, StrategyFields } from "@/pages/backends/StrategyFields";
import type { FleetQueries } from "@/pages/backends/useFleet";
import { sortNewestFirst } from "@/pages/backends/versions";
import { plural } from "@/text/format";

/** The requested change; the dialog asks for the rest. */
export interface ChangeDraft {
  verb: BackendVerb;
  /** The name that is sent: of a family or of one build, with its gallery if one was named. */
  backend: string;
  title: string;
  /** The nodes that are selected at first; null for every node that the backend can be installed on. */
  nodes: string[] | null;
  version?: string;
}

const WORDS: Record<BackendVerb, string> = {
  install: "Install",
  upgrade: "Upgrade",
  reinstall: "Reinstall",
  rollback: "Roll back",
  delete: "Remove",
};

interface ChangeDialogProps {
  change: ChangeDraft;
  known: FleetQueries;
  onClose: () => void;
}

export function ChangeDialog({ change, known, onClose }: ChangeDialogProps) {
  const [followed, setFollowed] = useState<string | null>(null);
  if (followed) {
    return (
      <Dialog title={change.title} onClose={onClose} wide actions={<Button onClick={onClose}>Close</Button>}>
        <OperationFollower id={followed} onNext={setFollowed} />
      </Dialog>
    );
  }
  return <ChangeForm change={change} known={known} onClose={onClose} onBegun={setFollowed} />;
}

function ChangeForm({
  change,
  known,
  onClose,
  onBegun,
}: ChangeDialogProps & { onBegun: (id: string) => void }) {
  const { verb } = change;
  const [isWhole, setWhole] = useState(change.nodes === null);
  const [chosen, setChosen] = useState(() => new Set(change.nodes ?? []));
  const [version, setVersion] = useState(change.version ?? "");
  const [ignoresHardware, setIgnores] = useState(false);
  const [how, setHow] = useState<StrategyDraft>({
    pace: verb === "upgrade" ? "careful" : "once",
    custom: "",
    stops: true,
    returns: false,
  });
  const strategy = parseStrategy(how);
  const isPlain = verb === "rollback" || verb === "delete";
  const request: BackendChange = {
    verb,
    backend: change.backend,
    nodes: isWhole ? null : [...chosen].sort(),
    version,
    ignoresHardware,
    strategy: isPlain || typeof strategy === "string" ? ALL_AT_ONCE : (strategy as StrategyIn),
    source: null,
  };
  const settled = useSettled(request);
  const isComplete = (isWhole || chosen.size > 0) && typeof strategy !== "string";
  const planned = useQuery({
    ...planChange(settled),
    enabled: isComplete,
    placeholderData: keepPreviousData,
  });
  const entry = findEntry(known.fleet.entries, change.backend);
  const name = entry?.name ?? change.backend;
  const row = known.matrix.rows.find((one) => one.name === name || holds(one, name));
  const all = useMemo(
    () => listCandidates(verb, known.fleet.nodes, row, entry, isWhole ? planned.data : undefined),
    [verb, known.fleet.nodes, row, entry, isWhole, planned.data],
  );
  const begin = useMutation({
    mutationFn: (waits: boolean) => requestChange(request, waits),
    onSuccess: (admitted) => onBegun(admitted.id),
  });
  const isHeld = begin.error instanceof Problem && begin.error.code === "operation_in_progress";
  const needsNodes = verb === "install" && entry?.metaBackendFor != null;
  const versions = sortNewestFirst([...(entry?.versions ?? []), ...buildVersions(known, row?.name ?? name)]);
  const count =
    planned.data && isComplete && !planned.error ? planned.data.nodes.length : isWhole ? 0 : chosen.size;
  const hasOdd = all.some((one) => one.isOdd && chosen.has(one.node.id));
  const pending = known.fleet.nodes.filter((node) => node.status === "pending").length;
  return (
    <Dialog
      title={change.title}
      onClose={onClose}
      wide
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind={verb === "delete" ? "danger" : "primary"}
            disabled={!isComplete || planned.error !== null}
            busy={begin.isPending}
            onClick={() => begin.mutate(false)}
          >
            {WORDS[verb]} on {plural(count, "node")}
          </Button>
        </>
      }
    >
      {verb === "delete" && (
        <p>Its processes are stopped. It is removed from unreachable nodes when they return.</p>
      )}
      {!needsNodes && (
        <SegmentedControl
          label="Nodes"
          value={isWhole ? "whole" : "chosen"}
          options={[
            {
              value: "whole",
              label: verb === "install" ? "All compatible nodes" : "All nodes that have it",
            },
            { value: "chosen", label: "Selected nodes" },
          ]}
          onChange={(value) => setWhole(value === "whole")}
        />
      )}
      {!isWhole && (
        <NodePicker all={all} chosen={chosen} onChange={setChosen} withMissing={verb === "install"} />
      )}
      {pending > 0 && verb === "install" && (
        <p className="small soft">{plural(pending, "node")} more must be approved first.</p>
      )}
      {!isPlain && (
        <div className="backends-options">
          <Select label="Version" value={version} onChange={(event) => setVersion(event.target.value)}>
            <option value="">{verb === "reinstall" ? "Installed version" : "Latest"}</option>
            {versions.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </Select>
          <StrategyFields how={how} onChange={setHow} />
        </div>
      )}
      {verb === "install" && (hasOdd || ignoresHardware) && (
        <Checkbox
          label="Ignore hardware compatibility"
          hint="The build may not run on those nodes."
          checked={ignoresHardware}
          onChange={(event) => setIgnores(event.target.checked)}
        />
      )}
      {isComplete && <PlanPreview query={planned} />}
      <ErrorNotice error={begin.error} />
      {isHeld && (
        <Button small busy={begin.isPending} onClick={() => begin.mutate(true)}>
          Queue after the active operation
        </Button>
      )}
    </Dialog>
  );
}

function holds(row: { cells: readonly { build: string }[] }, build: string): boolean {
  return row.cells.some((cell) => cell.build === build);
}

/** The versions of a name's builds: the name itself has none. */
function buildVersions(known: FleetQueries, family: string): string[] {
  return known.fleet.entries
    .filter((entry) => entry.metaBackendFor === family || entry.name === family)
    .flatMap((entry) => entry.versions ?? []);
}
