// The matrix with its filters, and the dialog of the cell that the address names.
import { useCallback, useMemo } from "react";
import { Button } from "@/kit/Button";
import { Search, Segments } from "@/kit/fields";
import { Empty } from "@/kit/Panel";
import { CellDialog } from "@/pages/backends/CellDialog";
import type { Change } from "@/pages/backends/ChangeDialog";
import type { Row } from "@/pages/backends/fleet";
import { Matrix } from "@/pages/backends/Matrix";
import { commonVersion } from "@/pages/backends/offers";
import { counts, narrowed, type Shown } from "@/pages/backends/shown";
import type { Known } from "@/pages/backends/useFleet";
import { useAddress } from "@/shell/useAddress";

const WORDS: [Shown, string][] = [
  ["drift", "Drift"],
  ["upgrades", "Upgrades"],
  ["failed", "Failed"],
  ["busy", "Under way"],
  ["missing", "Missing"],
];

export function MatrixView({ known, onChange }: { known: Known; onChange: (change: Change) => void }) {
  const [search, say] = useAddress("/backends");
  const { matrix } = known;
  const q = search.q ?? "";
  const shown = useMemo(() => narrowed(matrix, search.show, q), [matrix, search.show, q]);
  const number = useMemo(() => counts(matrix), [matrix]);
  const open = useCallback((backend: string, node: string) => say({ backend, node }), [say]);
  const close = () => say({ backend: undefined, node: undefined }, true);
  const repair = useCallback(
    (row: Row) =>
      onChange({
        verb: "upgrade",
        backend: row.name,
        title: `Bring every ${row.name} to one version`,
        nodes: null,
        version: commonVersion(row.cells, row.available),
      }),
    [onChange],
  );
  const upgrade = useCallback(
    (row: Row) => onChange({ verb: "upgrade", backend: row.name, title: `Upgrade ${row.name}`, nodes: null }),
    [onChange],
  );
  const row = matrix.rows.find((one) => one.name === search.backend);
  const cell = row?.cells.find((one) => one.nodeName === search.node);
  if (matrix.rows.length === 0) {
    return (
      <Empty title={matrix.columns.length ? "No backend is installed yet." : "There are no nodes yet."}>
        {matrix.columns.length ? (
          <Button kind="primary" onClick={() => say({ view: "catalog" })}>
            Choose one from the catalog
          </Button>
        ) : (
          "Join a worker on the Nodes page. Backends are installed on it from here."
        )}
      </Empty>
    );
  }
  return (
    <div className="stack">
      <div className="row">
        <Search
          label="Backend or node"
          value={q}
          onChange={(value) => say({ q: value || undefined }, true)}
        />
        <Segments
          label="Show"
          value={search.show ?? "all"}
          options={[
            { value: "all" as const, label: "All" },
            ...WORDS.map(([value, label]) => ({ value, label, count: number[value] })),
          ]}
          onChange={(value) => say({ show: value === "all" ? undefined : value }, true)}
        />
      </div>
      {shown.rows.length && shown.columns.length ? (
        <Matrix matrix={shown} onOpen={open} onRepair={repair} onUpgrade={upgrade} />
      ) : (
        <Empty title="Nothing here is like that.">
          <Button onClick={() => say({ q: undefined, show: undefined }, true)}>Show everything</Button>
        </Empty>
      )}
      <p className="small soft backends-legend">
        <span className="backends-swatch v0" /> newest <span className="backends-swatch v1" />
        <span className="backends-swatch v2" />
        <span className="backends-swatch v3" /> older versions of the row{" "}
        <span className="backends-mark warn">drift</span> not what most nodes have. Open a cell to change it.
      </p>
      {row && cell && (
        <CellDialog key={`${row.name} ${cell.nodeId}`} backend={row.name} cell={cell} onClose={close} />
      )}
    </div>
  );
}
