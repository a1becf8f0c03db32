// The cell of one backend on one node. Rendered only when its content changes.
import { memo } from "react";
import { Icon } from "@/kit/icons";
import { Progress } from "@/kit/measures";
import { isSameCell } from "@/pages/backends/cellEquality";
import type { MatrixCellData } from "@/pages/backends/fleet";
import { cellSentence, cellWord } from "@/pages/backends/words";

interface MatrixCellProps {
  cell: MatrixCellData;
  backend: string;
  row: number;
  column: number;
  isActive: boolean;
  onOpen: (backend: string, node: string) => void;
}

const SHADES = 5;

function PlainMatrixCell({ cell, backend, row, column, isActive, onOpen }: MatrixCellProps) {
  const isThere = cell.build !== "";
  const shade = isThere ? `v${Math.min(cell.shade, SHADES - 1)}` : "";
  const isWork = cell.state === "busy" || cell.state === "queued" || cell.state === "pending";
  return (
    <td className={`backends-cell is-${cell.state} ${shade}`} aria-colindex={column + 2}>
      <button
        type="button"
        tabIndex={isActive ? 0 : -1}
        data-at={`${row},${column}`}
        data-state={cell.state}
        title={cell.error || cell.reason || undefined}
        onClick={() => onOpen(backend, cell.nodeName)}
      >
        {/* The accessible name is a sentence; the visible word is not read out beside it. */}
        <span className="unseen">{cellSentence(cell, backend)}</span>
        <span className="backends-cell-line" aria-hidden="true">
          {cell.state === "failed" && <Icon name="cross" size={12} />}
          <span className="cut">{cellWord(cell)}</span>
          {cell.drifts && !isWork && (
            <span className="backends-mark warn" title={`Most nodes have ${cell.usual || "something else"}`}>
              drift
            </span>
          )}
          {cell.upgrade && !isWork && (
            <span className="backends-mark up" title={`Upgrade to ${cell.upgrade}`}>
              <Icon name="up" size={12} />
            </span>
          )}
        </span>
        {isThere && cell.state !== "installed" && cell.version && (
          <span className="backends-cell-had" aria-hidden="true">
            {cell.version}
          </span>
        )}
        {cell.state === "busy" && (
          <span aria-hidden="true">
            <Progress value={cell.percent} label={`Progress of ${backend} on ${cell.nodeName}`} />
          </span>
        )}
      </button>
    </td>
  );
}

export const MatrixCell = memo(
  PlainMatrixCell,
  (one, other) =>
    one.isActive === other.isActive &&
    one.row === other.row &&
    one.column === other.column &&
    one.backend === other.backend &&
    one.onOpen === other.onOpen &&
    isSameCell(one.cell, other.cell),
);
