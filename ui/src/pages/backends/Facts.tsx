// A list of labels and values; entries without a value are left out.
import type { ReactNode } from "react";

export function Facts({ facts }: { facts: [string, ReactNode][] }) {
  const known = facts.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return (
    <dl className="backends-facts">
      {known.map(([word, value]) => (
        <div key={word}>
          <dt>{word}</dt>
          <dd className={typeof value === "string" ? "number" : undefined}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
