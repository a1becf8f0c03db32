// The operations page: active operations, those that need a user, and the history; one operation in full beside them.
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useCallback, useEffect, useId, useMemo, useRef, useState } from "react";
import { operations } from "@/api/queries";
import type { AssignmentOut, OperationHistoryOut, OperationOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { Filters } from "@/pages/operations/Filters";
import { OperationCard } from "@/pages/operations/OperationCard";
import { OperationDetail } from "@/pages/operations/OperationDetail";
import { OperationHistory } from "@/pages/operations/OperationHistory";
import { OperationTabs } from "@/pages/operations/OperationTabs";
import { PendingChanges } from "@/pages/operations/PendingChanges";
import { assignmentsQuery, historyQuery } from "@/pages/operations/queries";
import type { OperationsSearch } from "@/pages/operations/search";
import {
  buildSections,
  describeOperations,
  describeTries,
  isFiltered,
  listOtherPendingChanges,
  matchesFilter,
  type OperationFilter,
} from "@/pages/operations/sections";
import "@/pages/operations/operations.css";

const NO_OPERATIONS: never[] = [];
const SETTLE_MS = 250;
const CARDS = 50;

export default function Operations() {
  const { operation: shown, kind, outcome, q, node, since, until } = useSearch({ from: "/operations" });
  const filter = useMemo(
    () => ({ kind, outcome, q, node, since, until }),
    [kind, outcome, q, node, since, until],
  );
  const navigate = useNavigate({ from: "/operations" });
  const listed = useQuery(operations);
  const assignments = useAssignments(listed.data ?? NO_OPERATIONS);
  const close = useCallback(() => {
    void navigate({ search: (before: OperationsSearch) => ({ ...before, operation: undefined }) });
    document.getElementById(`operation-${shown}`)?.focus();
  }, [navigate, shown]);
  const dead = assignments.filter((assignment) => assignment.state === "dead").length;
  return (
    <>
      <PageHeader title="Operations" note={listed.data && describeOperations(listed.data, dead)} />
      <OperationTabs />
      <div className={shown ? "operations-split" : undefined}>
        <div className="stack operations-lists">
          <Filters filter={filter} />
          <QueryView query={listed}>
            {(all) => <OperationLists all={all} assignments={assignments} filter={filter} shown={shown} />}
          </QueryView>
        </div>
        {shown && <OperationDetail id={shown} filter={filter} onClose={close} />}
      </div>
    </>
  );
}

/** Returns the assignments. A failed attempt has no event of its own, so they are refetched when an operation changes. */
function useAssignments(all: readonly OperationOut[]): readonly AssignmentOut[] {
  const cache = useQueryClient();
  const tries = describeTries(all);
  const before = useRef(tries);
  useEffect(() => {
    if (before.current !== tries) void cache.invalidateQueries({ queryKey: assignmentsQuery.queryKey });
    before.current = tries;
  }, [cache, tries]);
  return useQuery(assignmentsQuery).data ?? NO_OPERATIONS;
}

interface OperationListsProps {
  all: readonly OperationOut[];
  assignments: readonly AssignmentOut[];
  filter: OperationFilter;
  shown: string | undefined;
}

function OperationLists({ all, assignments, filter, shown }: OperationListsProps) {
  const record = useInfiniteQuery(historyQuery(useSettledFilter(filter)));
  const pages: OperationHistoryOut[] = record.data?.pages ?? NO_OPERATIONS;
  const { active, failed } = buildSections(all.filter((operation) => matchesFilter(operation, filter)));
  const records = pages.flatMap((page) => page.operations);
  const pending = listOtherPendingChanges(matching(assignments, filter), all);
  const isEmpty =
    active.length + failed.length + pending.dead.length + pending.open.length + records.length === 0;
  const cards = (some: readonly OperationOut[]) => (
    <CardSection operations={some} filter={filter} shown={shown} />
  );
  return (
    <>
      {(failed.length > 0 || pending.dead.length > 0) && (
        <Section title="Needs attention">
          {failed.length > 0 && cards(failed)}
          {pending.dead.length > 0 && <PendingChanges assignments={pending.dead} filter={filter} />}
        </Section>
      )}
      {active.length > 0 && <Section title="In progress">{cards(active)}</Section>}
      {pending.open.length > 0 && (
        <Section title="Pending changes">
          <PendingChanges
            assignments={pending.open}
            filter={filter}
            explainedOperations={new Set(active.map((one) => one.id))}
          />
        </Section>
      )}
      <QueryView query={record}>
        {() =>
          (records.length > 0 || record.hasNextPage) && (
            <OperationHistory
              records={records}
              filter={filter}
              stale={pages[0]?.stale}
              shown={shown}
              onOlder={record.hasNextPage ? () => void record.fetchNextPage() : null}
              isReading={record.isFetchingNextPage}
            />
          )
        }
      </QueryView>
      {isEmpty && record.data && !record.isPlaceholderData && <NoOperations filter={filter} />}
    </>
  );
}

interface CardsProps {
  operations: readonly OperationOut[];
  filter: OperationFilter;
  shown: string | undefined;
}

/** Hundreds of moving cards would block the browser: only the first are rendered, and more on request. */
function CardSection({ operations: all, filter, shown }: CardsProps) {
  const [drawn, setDrawn] = useState(CARDS);
  const left = all.length - drawn;
  return (
    <>
      <ul className="plain stack">
        {all.slice(0, drawn).map((one) => (
          <OperationCard key={one.id} operation={one} filter={filter} isOpen={one.id === shown} />
        ))}
      </ul>
      {left > 0 && (
        <div>
          <Button small onClick={() => setDrawn(drawn + CARDS)}>
            Show {Math.min(left, CARDS)} more of {left}
          </Button>
        </div>
      )}
    </>
  );
}

/** Returns the filter a moment after its last change, so that typing does not send a request for every letter. */
function useSettledFilter(filter: OperationFilter): OperationFilter {
  const [settled, setSettled] = useState(filter);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(filter), SETTLE_MS);
    return () => window.clearTimeout(timer);
  }, [filter]);
  return settled;
}

/** Returns the assignments that match the filter. They concern backends only and have no outcome and no end. */
function matching(assignments: readonly AssignmentOut[], filter: OperationFilter): AssignmentOut[] {
  const { kind, outcome, q, node, since, until } = filter;
  if ((kind && kind !== "backends") || outcome || since || until) return [];
  const searched = q?.trim().toLowerCase();
  return assignments.filter(
    (assignment) =>
      (!node || assignment.node_name === node || assignment.node_id === node) &&
      (!searched ||
        `${assignment.backend} ${assignment.node_name} ${assignment.error ?? ""}`
          .toLowerCase()
          .includes(searched)),
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <section className="stack tight" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  );
}

function NoOperations({ filter }: { filter: OperationFilter }) {
  const navigate = useNavigate({ from: "/operations" });
  if (isFiltered(filter)) {
    return (
      <EmptyState title="No operations match this filter.">
        <Button
          small
          onClick={() =>
            void navigate({ search: (before: OperationsSearch) => ({ operation: before.operation }) })
          }
        >
          Clear filters
        </Button>
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No operations yet.">
      Install a <Link to="/backends">backend</Link> or a <Link to="/models">model</Link> to start one.
    </EmptyState>
  );
}
