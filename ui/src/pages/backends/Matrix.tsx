// The fleet matrix: backends by nodes. Arrows move in it, Enter opens a cell, the head of a row changes all nodes.
// Cells out of sight are not rendered; row and column indices tell screen readers where a cell is.
import { Link } from "@tanstack/react-router";
import { type KeyboardEvent, memo, useCallback, useLayoutEffect, useRef, useState } from "react";
import type { NodeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { NodeStatus } from "@/kit/status";
import type { BackendRow, MatrixData } from "@/pages/backends/fleet";
import { type GridPosition, movePosition } from "@/pages/backends/gridKeys";
import { MatrixCell } from "@/pages/backends/MatrixCell";
import { backendsSearch } from "@/pages/backends/search";
import { type RangeItem, useVisibleCells } from "@/pages/backends/useVisibleCells";
import { plural } from "@/text/format";

interface MatrixProps {
  matrix: MatrixData;
  onOpen: (backend: string, node: string) => void;
  onRepair: (row: BackendRow) => void;
  onUpgrade: (row: BackendRow) => void;
}

export function Matrix({ matrix, onOpen, onRepair, onUpgrade }: MatrixProps) {
  const [active, setActive] = useState<GridPosition>({ row: 0, column: 0 });
  const box = useRef<HTMLDivElement>(null);
  const { columns, rows } = matrix;
  const at = {
    row: Math.min(active.row, rows.length - 1),
    column: Math.min(active.column, columns.length - 1),
  };
  const visible = useVisibleCells(box, { row: rows.length, column: columns.length }, at);
  const { scrollToCell } = visible;
  // A cell that was out of sight is rendered first, then focused.
  const awaited = useRef<GridPosition | null>(null);
  const go = useCallback((place: GridPosition) => {
    awaited.current = place;
    setActive(place);
  }, []);
  useLayoutEffect(() => {
    const place = awaited.current;
    if (!place || place.row !== at.row || place.column !== at.column) return;
    awaited.current = null;
    scrollToCell(place);
    box.current
      ?.querySelector<HTMLElement>(`[data-at="${place.row},${place.column}"]`)
      ?.focus({ preventScroll: true });
  }, [at.row, at.column, scrollToCell]);
  const onKeyDown = (event: KeyboardEvent) => {
    const place = movePosition(at, event.key, event.ctrlKey || event.metaKey, rows.length, columns.length);
    if (!place) return;
    event.preventDefault();
    go(place);
  };
  const onFocus = (event: { target: EventTarget }) => {
    const position = (event.target as HTMLElement).dataset.at?.split(",").map(Number);
    if (position?.length === 2) setActive({ row: position[0] ?? 0, column: position[1] ?? 0 });
  };
  return (
    <div className="backends-matrix" ref={box}>
      <table
        // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a grid is a table that keys move in
        role="grid"
        aria-label="Backends by node"
        aria-rowcount={rows.length + 1}
        aria-colcount={columns.length + 1}
        onKeyDown={onKeyDown}
        onFocus={onFocus}
      >
        <ColumnHeads columns={columns} drawn={visible.columns} measure={visible.measureColumn} />
        <tbody>
          {visible.rows.map((one) => {
            if ("room" in one) return <SkippedRows key={`from ${one.from}`} height={one.room} />;
            const row = rows[one.place];
            if (!row) return null;
            return (
              <MatrixRow
                key={row.name}
                row={row}
                place={one.place}
                drawn={visible.columns}
                measure={visible.measureRow}
                active={at.row === one.place ? at.column : null}
                onOpen={onOpen}
                onRepair={onRepair}
                onUpgrade={onUpgrade}
              />
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** An empty row with the height of the rows that are not rendered. */
function SkippedRows({ height }: { height: number }) {
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: nothing in it can have the focus
    <tr aria-hidden="true">
      <td style={{ height, padding: 0 }} />
    </tr>
  );
}

function SkippedColumns({ width }: { width: number }) {
  return <td aria-hidden="true" className="backends-skipped" style={{ minWidth: width, maxWidth: width }} />;
}

interface ColumnHeadsProps {
  columns: readonly NodeOut[];
  drawn: readonly RangeItem[];
  measure: (head: HTMLElement | null) => void;
}

/** Rendered when nodes change or come into sight, not when the focus moves. */
const ColumnHeads = memo(function ColumnHeads({ columns, drawn, measure }: ColumnHeadsProps) {
  return (
    <thead>
      <tr aria-rowindex={1}>
        <th scope="col" className="backends-corner" aria-colindex={1}>
          <span className="unseen">Backend</span>
        </th>
        {drawn.map((one) => {
          if ("room" in one) return <SkippedColumns key={`from ${one.from}`} width={one.room} />;
          const node = columns[one.place];
          if (!node) return null;
          return (
            <th
              key={node.id}
              ref={measure}
              scope="col"
              data-index={one.place}
              data-node={node.name}
              aria-colindex={one.place + 2}
            >
              <span className="cut" title={node.name}>
                {node.name}
              </span>
              <NodeStatus status={node.status} reason={node.status_reason} />
            </th>
          );
        })}
      </tr>
    </thead>
  );
});

interface MatrixRowProps extends Pick<MatrixProps, "onOpen" | "onRepair" | "onUpgrade"> {
  row: BackendRow;
  place: number;
  drawn: readonly RangeItem[];
  measure: (row: HTMLElement | null) => void;
  /** The column that has the focus; null if none of this row has it. */
  active: number | null;
}

const MatrixRow = memo(function MatrixRow({
  row,
  place,
  drawn,
  measure,
  active,
  onOpen,
  onRepair,
  onUpgrade,
}: MatrixRowProps) {
  return (
    <tr ref={measure} data-index={place} data-backend={row.name} aria-rowindex={place + 2}>
      <RowHead row={row} place={place} active={active} onRepair={onRepair} onUpgrade={onUpgrade} />
      {drawn.map((one) => {
        if ("room" in one) return <SkippedColumns key={`from ${one.from}`} width={one.room} />;
        const cell = row.cells[one.place];
        if (!cell) return null;
        return (
          <MatrixCell
            key={cell.nodeId}
            cell={cell}
            backend={row.name}
            row={place}
            column={one.place}
            isActive={active === one.place}
            onOpen={onOpen}
          />
        );
      })}
    </tr>
  );
});

interface RowHeadProps {
  row: BackendRow;
  place: number;
  active: number | null;
  onRepair: (row: BackendRow) => void;
  onUpgrade: (row: BackendRow) => void;
}

/** The name is a cell of the grid. The buttons of a row are reached with Tab, in the row that has the focus. */
function RowHead({ row, place, active, onRepair, onUpgrade }: RowHeadProps) {
  const keys = { tabIndex: active === null ? -1 : 0 };
  return (
    <th scope="row" aria-colindex={1}>
      <Link
        to="/backends"
        search={backendsSearch({ view: "catalog", backend: row.name })}
        className="cut"
        title={row.name}
        tabIndex={active === -1 ? 0 : -1}
        data-at={`${place},-1`}
      >
        {row.name}
      </Link>
      <span className="small">
        {row.versions.length > 1 ? plural(row.versions.length, "version") : row.versions[0]}
      </span>
      {row.drifting > 0 ? (
        <Button small {...keys} aria-label={`Repair ${row.name}`} onClick={() => onRepair(row)}>
          Repair
        </Button>
      ) : (
        row.upgradable > 0 && (
          <Button
            small
            {...keys}
            aria-label={`Upgrade ${row.name} everywhere`}
            onClick={() => onUpgrade(row)}
          >
            Upgrade
          </Button>
        )
      )}
    </th>
  );
}
