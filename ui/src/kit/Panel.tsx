// A section of a page with a heading and its actions.
import { type ReactNode, useId } from "react";

interface PanelProps {
  title: string;
  /** Shown beside the heading. */
  actions?: ReactNode;
  /** One sentence under the heading. */
  note?: ReactNode;
  level?: 2 | 3;
  children: ReactNode;
}

export function Panel({ title, actions, note, level = 2, children }: PanelProps) {
  const id = useId();
  const Heading = `h${level}` as const;
  return (
    <section className="panel" aria-labelledby={id}>
      <header className="row apart">
        <Heading id={id}>{title}</Heading>
        {actions && <div className="row">{actions}</div>}
      </header>
      {note && <p className="soft small">{note}</p>}
      {children}
    </section>
  );
}

/** The head of a page: its one h1. */
export function PageHeader({
  title,
  note,
  children,
}: {
  title: ReactNode;
  note?: ReactNode;
  children?: ReactNode;
}) {
  return (
    <header className="page-head">
      <div className="stack tight">
        <h1>{title}</h1>
        {note && <div className="soft">{note}</div>}
      </div>
      {children && <div className="row">{children}</div>}
    </header>
  );
}

/** An empty state: why there is nothing, and what to do. */
export function EmptyState({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children && <div className="soft">{children}</div>}
    </div>
  );
}
