// The audit log, newest entry first.
import { useInfiniteQuery } from "@tanstack/react-query";
import type { AuditEntryOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { SearchField } from "@/kit/fields";
import { EmptyState, Panel } from "@/kit/Panel";
import { LoadingLines } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Tag } from "@/kit/status";
import { audit } from "@/pages/settings/calls";
import { filterEntries } from "@/pages/settings/settingsLists";
import { usePageSearch } from "@/shell/usePageSearch";
import { formatMoment } from "@/text/format";

export function Audit() {
  const [{ q = "" }, setSearch] = usePageSearch("/settings");
  const query = useInfiniteQuery(audit);
  const entries = query.data?.pages.flatMap((page) => page.entries) ?? [];
  const shown = filterEntries(entries, q);
  return (
    <Panel
      title="Audit log"
      actions={
        <Button small icon="again" busy={query.isRefetching} onClick={() => void query.refetch()}>
          Refresh
        </Button>
      }
    >
      <SearchField
        label="Filter loaded entries"
        value={q}
        onChange={(term) => setSearch({ q: term || undefined }, true)}
      />
      <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      {query.isPending && <LoadingLines />}
      {query.data && shown.length === 0 && (
        <EmptyState title="No audit entries match this filter.">
          {query.hasNextPage ? "Load older entries to search further." : "Change the search."}
        </EmptyState>
      )}
      {shown.length > 0 && (
        <div className="table-box">
          <table className="settings-audit">
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Who</th>
                <th scope="col">Action</th>
                <th scope="col">Target</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((entry) => (
                <EntryRow key={entry.id} entry={entry} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {query.hasNextPage && (
        <div>
          <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            Load more
          </Button>
        </div>
      )}
    </Panel>
  );
}

function EntryRow({ entry }: { entry: AuditEntryOut }) {
  return (
    <tr>
      <td className="settings-when" title={formatMoment(entry.at)}>
        <RelativeTime at={entry.at} />
      </td>
      <td>{entry.actor}</td>
      <td>
        <Tag>{entry.action}</Tag>
      </td>
      <td className="settings-target">
        {entry.detail || entry.target}
        {entry.detail && <p className="small faint settings-id">{entry.target}</p>}
      </td>
    </tr>
  );
}
