// The two pages about work: operations of the cluster, and runs of people. A caller who may not operate has runs only.
import { Link } from "@tanstack/react-router";
import { useHasScope } from "@/shell/me";

const EXACT = { exact: true, includeSearch: false } as const;

export function OperationTabs() {
  if (!useHasScope("operate")) return null;
  return (
    <nav className="tabs section-tabs" aria-label="Operations and runs">
      <Link to="/operations" activeOptions={EXACT}>
        Operations
      </Link>
      <Link to="/runs" activeOptions={EXACT}>
        Runs
      </Link>
    </nav>
  );
}
