// What is under way, what needs somebody, and what has ended. One operation in full stands beside them.
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useCallback, useEffect, useId, useMemo, useRef, useState } from "react";
import { operations } from "@/api/queries";
import type { HistoryOut, IntentOut, OperationOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Empty, PageHead } from "@/kit/Panel";
import { Card } from "@/pages/operations/Card";
import { Detail } from "@/pages/operations/Detail";
import { Filters } from "@/pages/operations/Filters";
import { Owed } from "@/pages/operations/Owed";
import { intents as intentsQuery, record as recordQuery } from "@/pages/operations/queries";
import { Record } from "@/pages/operations/Record";
import type { OperationsSearch } from "@/pages/operations/search";
import {
  type Filter,
  isFiltered,
  matches,
  owedBeside,
  sections,
  summary,
  triesOf,
} from "@/pages/operations/sorting";
import "@/pages/operations/operations.css";

const NOTHING: never[] = [];
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
  const intents = useIntents(listed.data ?? NOTHING);
  const close = useCallback(() => {
    void navigate({ search: (before: OperationsSearch) => ({ ...before, operation: undefined }) });
    document.getElementById(`operation-${shown}`)?.focus();
  }, [navigate, shown]);
  const dead = intents.filter((intent) => intent.state === "dead").length;
  return (
    <>
      <PageHead title="Operations" note={listed.data && summary(listed.data, dead)} />
      <div className={shown ? "operations-split" : undefined}>
        <div className="stack operations-lists">
          <Filters filter={filter} />
          <Answered query={listed}>
            {(all) => <Lists all={all} intents={intents} filter={filter} shown={shown} />}
          </Answered>
        </div>
        {shown && <Detail id={shown} filter={filter} onClose={close} />}
      </div>
    </>
  );
}

/** What nodes owe. That a try has failed is no event of its own: it is read off the operations. */
function useIntents(all: readonly OperationOut[]): readonly IntentOut[] {
  const cache = useQueryClient();
  const tries = triesOf(all);
  const before = useRef(tries);
  useEffect(() => {
    if (before.current !== tries) void cache.invalidateQueries({ queryKey: intentsQuery.queryKey });
    before.current = tries;
  }, [cache, tries]);
  return useQuery(intentsQuery).data ?? NOTHING;
}

interface ListsProps {
  all: readonly OperationOut[];
  intents: readonly IntentOut[];
  filter: Filter;
  shown: string | undefined;
}

function Lists({ all, intents, filter, shown }: ListsProps) {
  const record = useInfiniteQuery(recordQuery(useSettled(filter)));
  const pages: HistoryOut[] = record.data?.pages ?? NOTHING;
  const { underWay, failed } = sections(all.filter((operation) => matches(operation, filter)));
  const records = pages.flatMap((page) => page.operations);
  const owed = owedBeside(matching(intents, filter), all);
  const isEmpty =
    underWay.length + failed.length + owed.dead.length + owed.open.length + records.length === 0;
  const cards = (some: readonly OperationOut[]) => <Cards operations={some} filter={filter} shown={shown} />;
  return (
    <>
      {(failed.length > 0 || owed.dead.length > 0) && (
        <Section title="Needs attention">
          {failed.length > 0 && cards(failed)}
          {owed.dead.length > 0 && <Owed intents={owed.dead} filter={filter} />}
        </Section>
      )}
      {underWay.length > 0 && <Section title="In progress">{cards(underWay)}</Section>}
      {owed.open.length > 0 && (
        <Section title="Owed by nodes">
          <Owed intents={owed.open} filter={filter} told={new Set(underWay.map((one) => one.id))} />
        </Section>
      )}
      <Answered query={record}>
        {() =>
          (records.length > 0 || record.hasNextPage) && (
            <Record
              records={records}
              filter={filter}
              stale={pages[0]?.stale}
              shown={shown}
              onOlder={record.hasNextPage ? () => void record.fetchNextPage() : null}
              isReading={record.isFetchingNextPage}
            />
          )
        }
      </Answered>
      {isEmpty && record.data && !record.isPlaceholderData && <Nothing filter={filter} />}
    </>
  );
}

interface CardsProps {
  operations: readonly OperationOut[];
  filter: Filter;
  shown: string | undefined;
}

/** Hundreds of cards that all move would stop the browser: the first are drawn, and more when somebody asks. */
function Cards({ operations: all, filter, shown }: CardsProps) {
  const [drawn, setDrawn] = useState(CARDS);
  const left = all.length - drawn;
  return (
    <>
      <ul className="plain stack">
        {all.slice(0, drawn).map((one) => (
          <Card key={one.id} operation={one} filter={filter} isOpen={one.id === shown} />
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

/** The filter a moment after its last change: who types does not ask the frontend for every letter. */
function useSettled(filter: Filter): Filter {
  const [settled, setSettled] = useState(filter);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(filter), SETTLE_MS);
    return () => window.clearTimeout(timer);
  }, [filter]);
  return settled;
}

/** A debt is about a backend on a node, and has not ended. */
function matching(intents: readonly IntentOut[], filter: Filter): IntentOut[] {
  const { kind, outcome, q, node, since, until } = filter;
  if ((kind && kind !== "backends") || outcome || since || until) return [];
  const wanted = q?.trim().toLowerCase();
  return intents.filter(
    (intent) =>
      (!node || intent.node_name === node || intent.node_id === node) &&
      (!wanted ||
        `${intent.backend} ${intent.node_name} ${intent.error ?? ""}`.toLowerCase().includes(wanted)),
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

function Nothing({ filter }: { filter: Filter }) {
  const navigate = useNavigate({ from: "/operations" });
  if (isFiltered(filter)) {
    return (
      <Empty title="Nothing matches these filters.">
        <Button
          small
          onClick={() =>
            void navigate({ search: (before: OperationsSearch) => ({ operation: before.operation }) })
          }
        >
          Show everything
        </Button>
      </Empty>
    );
  }
  return (
    <Empty title="Nothing has been done here yet.">
      Install an engine on the <Link to="/backends">page of backends</Link>, or a model on the{" "}
      <Link to="/models">page of models</Link>: what comes of it is shown here.
    </Empty>
  );
}
