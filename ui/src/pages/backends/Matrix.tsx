// The fleet matrix: backends by nodes. Arrows move in it, Enter opens a cell, the head of a row changes all nodes.
import { Link } from "@tanstack/react-router";
import { type KeyboardEvent, memo, useCallback, useRef, useState } from "react";
import type { NodeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { NodeStatus } from "@/kit/status";
import type { Matrix as MatrixData, Row } from "@/pages/backends/fleet";
import { MatrixCell } from "@/pages/backends/MatrixCell";
import { moved, type Place } from "@/pages/backends/moving";
import { backendsSearch } from "@/pages/backends/search";
import { plural } from "@/text/format";

interface MatrixProps {
  matrix: MatrixData;
  onOpen: (backend: string, node: string) => void;
  onRepair: (row: Row) => void;
  onUpgrade: (row: Row) => void;
}

export function Matrix({ matrix, onOpen, onRepair, onUpgrade }: MatrixProps) {
  const [active, setActive] = useState<Place>({ row: 0, column: 0 });
  const box = useRef<HTMLDivElement>(null);
  const { columns, rows } = matrix;
  const at = {
    row: Math.min(active.row, rows.length - 1),
    column: Math.min(active.column, columns.length - 1),
  };
  const go = useCallback((place: Place) => {
    setActive(place);
    box.current?.querySelector<HTMLElement>(`[data-at="${place.row},${place.column}"]`)?.focus();
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    const place = moved(at, event.key, event.ctrlKey || event.metaKey, rows.length, columns.length);
    if (!place) return;
    event.preventDefault();
    go(place);
  };
  const onFocus = (event: { target: EventTarget }) => {
    const said = (event.target as HTMLElement).dataset.at?.split(",").map(Number);
    if (said?.length === 2) setActive({ row: said[0] ?? 0, column: said[1] ?? 0 });
  };
  return (
    <div className="backends-matrix" ref={box}>
      <table
        // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a grid is a table that keys move in
        role="grid"
        aria-label="Backends by node"
        aria-rowcount={rows.length + 1}
        onKeyDown={onKeyDown}
        onFocus={onFocus}
      >
        <Head columns={columns} />
        <tbody>
          {rows.map((row, place) => (
            <MatrixRow
              key={row.name}
              row={row}
              place={place}
              active={at.row === place ? at.column : null}
              onOpen={onOpen}
              onRepair={onRepair}
              onUpgrade={onUpgrade}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Drawn again when nodes change, not when the focus moves. */
const Head = memo(function Head({ columns }: { columns: readonly NodeOut[] }) {
  return (
    <thead>
      <tr>
        <th scope="col" className="backends-corner">
          <span className="unseen">Backend</span>
        </th>
        {columns.map((node) => (
          <th key={node.id} scope="col">
            <span className="cut" title={node.name}>
              {node.name}
            </span>
            <NodeStatus status={node.status} reason={node.status_reason} />
          </th>
        ))}
      </tr>
    </thead>
  );
});

interface MatrixRowProps extends Pick<MatrixProps, "onOpen" | "onRepair" | "onUpgrade"> {
  row: Row;
  place: number;
  /** The column that has the focus; null: none of this row. */
  active: number | null;
}

const MatrixRow = memo(function MatrixRow({
  row,
  place,
  active,
  onOpen,
  onRepair,
  onUpgrade,
}: MatrixRowProps) {
  return (
    <tr data-backend={row.name}>
      <RowHead row={row} place={place} active={active} onRepair={onRepair} onUpgrade={onUpgrade} />
      {row.cells.map((cell, column) => (
        <MatrixCell
          key={cell.nodeId}
          cell={cell}
          backend={row.name}
          row={place}
          column={column}
          isActive={active === column}
          onOpen={onOpen}
        />
      ))}
    </tr>
  );
});

interface RowHeadProps {
  row: Row;
  place: number;
  active: number | null;
  onRepair: (row: Row) => void;
  onUpgrade: (row: Row) => void;
}

/** The name is a place of the grid; what can be done with the row comes with Tab, in the row that has the focus. */
function RowHead({ row, place, active, onRepair, onUpgrade }: RowHeadProps) {
  const keys = { tabIndex: active === null ? -1 : 0 };
  return (
    <th scope="row">
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
