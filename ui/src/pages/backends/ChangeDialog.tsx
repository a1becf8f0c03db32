// One dialog for every change: choose the nodes, see the plan, begin, and follow what was begun.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { Problem } from "@/api/client";
import type { StrategyIn } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { Checkbox, Segments, Select } from "@/kit/fields";
import { Trouble } from "@/kit/Trouble";
import { AT_ONCE, ask, plan as planOf, type Wish } from "@/pages/backends/data";
import { Follow } from "@/pages/backends/Follow";
import { entryNamed } from "@/pages/backends/listing";
import { NodePicker } from "@/pages/backends/NodePicker";
import type { Verb } from "@/pages/backends/offers";
import { PlanPreview } from "@/pages/backends/PlanPreview";
import { candidates } from "@/pages/backends/picking";
import { type How, Strategy, strategyOf } from "@/pages/backends/Strategy";
import type { Known } from "@/pages/backends/useFleet";
import { newestFirst } from "@/pages/backends/versions";
import { plural } from "@/text/format";

/** What somebody wants to change; the dialog asks for the rest. */
export interface Change {
  verb: Verb;
  /** The name that is sent: of a family or of one build, with its gallery if it is said. */
  backend: string;
  title: string;
  /** Chosen at the beginning; null: every node that may have it. */
  nodes: string[] | null;
  version?: string;
}

const WORDS: Record<Verb, string> = {
  install: "Install",
  upgrade: "Upgrade",
  reinstall: "Reinstall",
  rollback: "Roll back",
  delete: "Remove",
};
const SETTLE_MS = 200;

interface ChangeDialogProps {
  change: Change;
  known: Known;
  onClose: () => void;
}

export function ChangeDialog({ change, known, onClose }: ChangeDialogProps) {
  const [followed, setFollowed] = useState<string | null>(null);
  if (followed) {
    return (
      <Dialog title={change.title} onClose={onClose} wide actions={<Button onClick={onClose}>Close</Button>}>
        <Follow id={followed} onNext={setFollowed} />
      </Dialog>
    );
  }
  return <Asking change={change} known={known} onClose={onClose} onBegun={setFollowed} />;
}

function Asking({ change, known, onClose, onBegun }: ChangeDialogProps & { onBegun: (id: string) => void }) {
  const { verb } = change;
  const [isWhole, setWhole] = useState(change.nodes === null);
  const [chosen, setChosen] = useState(() => new Set(change.nodes ?? []));
  const [version, setVersion] = useState(change.version ?? "");
  const [ignoresHardware, setIgnores] = useState(false);
  const [how, setHow] = useState<How>({
    pace: verb === "upgrade" ? "careful" : "once",
    custom: "",
    stops: true,
    returns: false,
  });
  const strategy = strategyOf(how);
  const isPlain = verb === "rollback" || verb === "delete";
  const wish: Wish = {
    verb,
    backend: change.backend,
    nodes: isWhole ? null : [...chosen].sort(),
    version,
    ignoresHardware,
    strategy: isPlain || typeof strategy === "string" ? AT_ONCE : (strategy as StrategyIn),
    source: null,
  };
  const settled = useSettled(wish);
  const isAskable = (isWhole || chosen.size > 0) && typeof strategy !== "string";
  const planned = useQuery({ ...planOf(settled), enabled: isAskable, placeholderData: keepPreviousData });
  const entry = entryNamed(known.fleet.entries, change.backend);
  const name = entry?.name ?? change.backend;
  const row = known.matrix.rows.find((one) => one.name === name || holds(one, name));
  const all = useMemo(
    () => candidates(verb, known.fleet.nodes, row, entry, isWhole ? planned.data : undefined),
    [verb, known.fleet.nodes, row, entry, isWhole, planned.data],
  );
  const begin = useMutation({
    mutationFn: (waits: boolean) => ask(wish, waits),
    onSuccess: (admitted) => onBegun(admitted.id),
  });
  const isHeld = begin.error instanceof Problem && begin.error.code === "operation_in_progress";
  const needsNodes = verb === "install" && entry?.metaBackendFor != null;
  const versions = newestFirst([...(entry?.versions ?? []), ...buildVersions(known, row?.name ?? name)]);
  const count =
    planned.data && isAskable && !planned.error ? planned.data.nodes.length : isWhole ? 0 : chosen.size;
  const hasOdd = all.some((one) => one.isOdd && chosen.has(one.node.id));
  const pending = known.fleet.nodes.filter((node) => node.status === "pending").length;
  return (
    <Dialog
      title={change.title}
      onClose={onClose}
      wide
      actions={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button
            kind={verb === "delete" ? "danger" : "primary"}
            disabled={!isAskable || planned.error !== null}
            busy={begin.isPending}
            onClick={() => begin.mutate(false)}
          >
            {WORDS[verb]} on {plural(count, "node")}
          </Button>
        </>
      }
    >
      {verb === "delete" && (
        <p>Its processes there are stopped. Nodes that are away lose it when they are back.</p>
      )}
      {!needsNodes && (
        <Segments
          label="Nodes"
          value={isWhole ? "whole" : "chosen"}
          options={[
            {
              value: "whole",
              label: verb === "install" ? "Every node that can run it" : "Every node that has it",
            },
            { value: "chosen", label: "Chosen nodes" },
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
            <option value="">{verb === "reinstall" ? "As it is there" : "The newest"}</option>
            {versions.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </Select>
          <Strategy how={how} onChange={setHow} />
        </div>
      )}
      {verb === "install" && (hasOdd || ignoresHardware) && (
        <Checkbox
          label="Also where the hardware asks for another build"
          hint="It may not run there."
          checked={ignoresHardware}
          onChange={(event) => setIgnores(event.target.checked)}
        />
      )}
      {isAskable && <PlanPreview query={planned} />}
      <Trouble error={begin.error} />
      {isHeld && (
        <Button small busy={begin.isPending} onClick={() => begin.mutate(true)}>
          Do it after what is under way
        </Button>
      )}
    </Dialog>
  );
}

function holds(row: { cells: readonly { build: string }[] }, build: string): boolean {
  return row.cells.some((cell) => cell.build === build);
}

/** Versions of the builds behind a name: the name itself has none. */
function buildVersions(known: Known, family: string): string[] {
  return known.fleet.entries
    .filter((entry) => entry.metaBackendFor === family || entry.name === family)
    .flatMap((entry) => entry.versions ?? []);
}

/** The same value, once it has stood still for a moment. */
function useSettled(wish: Wish): Wish {
  const text = JSON.stringify(wish);
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(text), SETTLE_MS);
    return () => window.clearTimeout(timer);
  }, [text]);
  return useMemo(() => JSON.parse(settled) as Wish, [settled]);
}
