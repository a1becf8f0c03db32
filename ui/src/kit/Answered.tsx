// A query on the screen: waiting, trouble, or its data. What is shown once stays while it is read anew.
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Trouble } from "@/kit/Trouble";

interface AnsweredProps<T> {
  query: UseQueryResult<T, Error>;
  children: (data: T) => ReactNode;
}

export function Answered<T>({ query, children }: AnsweredProps<T>) {
  if (query.data !== undefined) {
    return (
      <>
        {query.error && <Trouble error={query.error} onRetry={() => void query.refetch()} />}
        {children(query.data)}
      </>
    );
  }
  if (query.error) return <Trouble error={query.error} onRetry={() => void query.refetch()} />;
  return <Waiting />;
}

/** Grey lines where text will be; it appears only if that takes a moment. */
export function Waiting({ lines = 3 }: { lines?: number }) {
  return (
    <div className="waiting" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all the same
        <div key={line} />
      ))}
    </div>
  );
}
