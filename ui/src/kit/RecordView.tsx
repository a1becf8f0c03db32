// The page of one record: the way back to its list, and a sentence in its place once it was deleted.
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { asProblem } from "@/api/client";
import { EmptyState } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";

interface RecordViewProps<T> {
  query: UseQueryResult<T>;
  /** The link to the list of such records. */
  back: ReactNode;
  /** Shown when a record that was shown is not there any more. */
  gone: string;
  children: (record: T) => ReactNode;
}

export function RecordView<T>({ query, back, gone, children }: RecordViewProps<T>) {
  const isGone = query.data !== undefined && query.error && asProblem(query.error).status === 404;
  return (
    <>
      <p className="small">{back}</p>
      {isGone ? (
        <div role="status">
          <EmptyState title={gone}>{back}</EmptyState>
        </div>
      ) : (
        <QueryView query={query}>{children}</QueryView>
      )}
    </>
  );
}
