// The list of runs, newest first: those of the caller, and for admins those of everybody.
import { useInfiniteQuery } from "@tanstack/react-query";
import { Button } from "@/kit/Button";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { OperationTabs } from "@/pages/operations/OperationTabs";
import { runsQuery } from "@/pages/runs/queries";
import { RunFilters } from "@/pages/runs/RunFilters";
import { RunRow } from "@/pages/runs/RunRow";
import { useHasScope } from "@/shell/me";
import { usePageSearch } from "@/shell/usePageSearch";
import "@/pages/runs/runs.css";

export default function Runs() {
  const [filter, setSearch] = usePageSearch("/runs");
  const isAdmin = useHasScope("admin");
  const hasStream = useHasScope("operate");
  const query = useInfiniteQuery(runsQuery({ ...filter, isAdmin, hasStream }));
  const isEverybody = isAdmin && filter.owner === "everybody";
  return (
    <>
      <PageHeader
        title="Runs"
        note="Work on behalf of people: turns of agents, tasks, chats with tools, batches."
      />
      <OperationTabs />
      <div className="stack">
        <RunFilters filter={filter} isAdmin={isAdmin} onChange={setSearch} />
        <QueryView query={query}>
          {({ pages }) => {
            const runs = pages.flatMap((page) => page.runs);
            if (runs.length === 0)
              return (
                <NoRuns
                  isFiltered={Boolean(filter.state || filter.kind || filter.node)}
                  onClear={() => setSearch({ state: undefined, kind: undefined, node: undefined })}
                  onEverybody={isAdmin && !isEverybody ? () => setSearch({ owner: "everybody" }) : null}
                />
              );
            return (
              <ul className="plain runs-list" aria-label="Runs">
                {runs.map((run) => (
                  <RunRow key={run.id} run={run} withOwner={isEverybody} />
                ))}
              </ul>
            );
          }}
        </QueryView>
        {query.hasNextPage && (
          <div>
            <Button small busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
              Load more
            </Button>
          </div>
        )}
      </div>
    </>
  );
}

interface NoRunsProps {
  isFiltered: boolean;
  onClear: () => void;
  /** Null where those of everybody are shown already, or may not be. */
  onEverybody: (() => void) | null;
}

function NoRuns({ isFiltered, onClear, onEverybody }: NoRunsProps) {
  const everybody = onEverybody && (
    <Button small onClick={onEverybody}>
      Show everybody's runs
    </Button>
  );
  if (isFiltered) {
    return (
      <EmptyState title="No runs match this filter.">
        <span className="row">
          <Button small onClick={onClear}>
            Clear filters
          </Button>
          {everybody}
        </span>
      </EmptyState>
    );
  }
  return (
    <EmptyState title={onEverybody ? "You have no runs yet." : "No runs yet."}>
      <p>A run starts when you ask an agent or run a task. Each is kept here with its trace.</p>
      {everybody}
    </EmptyState>
  );
}
