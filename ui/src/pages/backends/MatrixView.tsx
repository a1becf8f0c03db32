// The matrix with its filters, and the dialog of the cell that the address names.
import { useCallback, useMemo } from "react";
import { Button } from "@/kit/Button";
import { SearchField, SegmentedControl } from "@/kit/fields";
import { EmptyState } from "@/kit/Panel";
import { CellDialog } from "@/pages/backends/CellDialog";
import type { ChangeDraft } from "@/pages/backends/ChangeDialog";
import type { BackendRow } from "@/pages/backends/fleet";
import { Matrix } from "@/pages/backends/Matrix";
import { countCells, filterMatrix, type MatrixFilter } from "@/pages/backends/matrixFilter";
import { pickCommonVersion } from "@/pages/backends/offers";
import type { FleetQueries } from "@/pages/backends/useFleet";
import { usePageSearch } from "@/shell/usePageSearch";

const WORDS: [MatrixFilter, string][] = [
  ["drift", "Drift"],
  ["upgrades", "Upgrades"],
  ["failed", "Failed"],
  ["busy", "Active"],
  ["missing", "Missing"],
];

export function MatrixView({
  known,
  onChange,
}: {
  known: FleetQueries;
  onChange: (change: ChangeDraft) => void;
}) {
  const [search, setSearch] = usePageSearch("/backends");
  const { matrix } = known;
  const q = search.q ?? "";
  const shown = useMemo(() => filterMatrix(matrix, search.show, q), [matrix, search.show, q]);
  const number = useMemo(() => countCells(matrix), [matrix]);
  const open = useCallback((backend: string, node: string) => setSearch({ backend, node }), [setSearch]);
  const close = () => setSearch({ backend: undefined, node: undefined }, true);
  const repair = useCallback(
    (row: BackendRow) =>
      onChange({
        verb: "upgrade",
        backend: row.name,
        title: `Align all nodes to one version of ${row.name}`,
        nodes: null,
        version: pickCommonVersion(row.cells, row.available),
      }),
    [onChange],
  );
  const upgrade = useCallback(
    (row: BackendRow) =>
      onChange({ verb: "upgrade", backend: row.name, title: `Upgrade ${row.name}`, nodes: null }),
    [onChange],
  );
  const row = matrix.rows.find((one) => one.name === search.backend);
  const cell = row?.cells.find((one) => one.nodeName === search.node);
  if (matrix.rows.length === 0) {
    return (
      <EmptyState title={matrix.columns.length ? "No backends installed yet." : "No nodes yet."}>
        {matrix.columns.length ? (
          <Button kind="primary" onClick={() => setSearch({ view: "catalog" })}>
            Choose one from the catalog
          </Button>
        ) : (
          "Add a node on the Nodes page, then install backends here."
        )}
      </EmptyState>
    );
  }
  return (
    <div className="stack">
      <div className="row">
        <SearchField
          label="Backend or node"
          value={q}
          onChange={(value) => setSearch({ q: value || undefined }, true)}
        />
        <SegmentedControl
          label="Show"
          value={search.show ?? "all"}
          options={[
            { value: "all" as const, label: "All" },
            ...WORDS.map(([value, label]) => ({ value, label, count: number[value] })),
          ]}
          onChange={(value) => setSearch({ show: value === "all" ? undefined : value }, true)}
        />
      </div>
      {shown.rows.length && shown.columns.length ? (
        <Matrix matrix={shown} onOpen={open} onRepair={repair} onUpgrade={upgrade} />
      ) : (
        <EmptyState title="No cells match this filter.">
          <Button onClick={() => setSearch({ q: undefined, show: undefined }, true)}>Clear filters</Button>
        </EmptyState>
      )}
      <p className="small soft backends-legend">
        <span className="backends-swatch v0" /> latest <span className="backends-swatch v1" />
        <span className="backends-swatch v2" />
        <span className="backends-swatch v3" /> older versions{" "}
        <span className="backends-mark warn">drift</span> differs from most nodes. Select a cell to change it.
      </p>
      {row && cell && (
        <CellDialog key={`${row.name} ${cell.nodeId}`} backend={row.name} cell={cell} onClose={close} />
      )}
    </div>
  );
}
