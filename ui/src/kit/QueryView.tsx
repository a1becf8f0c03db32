// Renders a query: loading lines, its error, or its data. Data that was shown stays while the query refetches.
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ErrorNotice } from "@/kit/ErrorNotice";

interface QueryViewProps<T> {
  query: UseQueryResult<T, Error>;
  children: (data: T) => ReactNode;
}

export function QueryView<T>({ query, children }: QueryViewProps<T>) {
  if (query.data !== undefined) {
    return (
      <>
        {query.error && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
        {children(query.data)}
      </>
    );
  }
  if (query.error) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  return <LoadingLines />;
}

/** Grey placeholder lines, shown only if loading takes a moment. */
export function LoadingLines({ lines = 3 }: { lines?: number }) {
  return (
    <div className="waiting" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all the same
        <div key={line} />
      ))}
    </div>
  );
}
