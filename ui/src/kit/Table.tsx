// A table that scrolls sideways by itself where it is too wide, with the heads of its columns.
import type { ReactNode } from "react";

interface Column {
  label: string;
  /** Whether the column holds numbers, which are aligned to the right. */
  right?: boolean;
  /** The label is for screen readers only. */
  unseen?: boolean;
}

export const rightColumn = (label: string): Column => ({ label, right: true });
export const ACTIONS: Column = { label: "Actions", unseen: true };

interface TableProps {
  columns: readonly (Column | string)[];
  /** The `tbody` and `tfoot` elements. */
  children: ReactNode;
}

export function Table({ columns, children }: TableProps) {
  return (
    <div className="table-box">
      <table>
        <thead>
          <tr>
            {columns.map((column) => {
              const one: Column = typeof column === "string" ? { label: column } : column;
              return (
                <th key={one.label} scope="col" className={one.right ? "right" : undefined}>
                  {one.unseen ? <span className="unseen">{one.label}</span> : one.label}
                </th>
              );
            })}
          </tr>
        </thead>
        {children}
      </table>
    </div>
  );
}
