// Who did what to what, the newest first.
import { useInfiniteQuery } from "@tanstack/react-query";
import type { AuditEntryOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Waiting } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Search } from "@/kit/fields";
import { Empty, Panel } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import { Trouble } from "@/kit/Trouble";
import { audit } from "@/pages/settings/calls";
import { shownEntries } from "@/pages/settings/listing";
import { useAddress } from "@/shell/useAddress";
import { clock } from "@/text/format";

export function Audit() {
  const [{ q = "" }, say] = useAddress("/settings");
  const asked = useInfiniteQuery(audit);
  const entries = asked.data?.pages.flatMap((page) => page.entries) ?? [];
  const shown = shownEntries(entries, q);
  return (
    <Panel
      title="Audit log"
      actions={
        <Button small icon="again" busy={asked.isRefetching} onClick={() => void asked.refetch()}>
          Read anew
        </Button>
      }
    >
      <Search
        label="Search what is shown"
        value={q}
        onChange={(term) => say({ q: term || undefined }, true)}
      />
      <Trouble error={asked.error} onRetry={() => void asked.refetch()} />
      {asked.isPending && <Waiting />}
      {asked.data && shown.length === 0 && (
        <Empty title="Nobody did anything like that.">
          {asked.hasNextPage ? "Older entries may have it." : "Another word finds more."}
        </Empty>
      )}
      {shown.length > 0 && (
        <div className="table-box">
          <table className="settings-audit">
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Who</th>
                <th scope="col">What</th>
                <th scope="col">To what</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((entry) => (
                <Entry key={entry.id} entry={entry} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {asked.hasNextPage && (
        <div>
          <Button busy={asked.isFetchingNextPage} onClick={() => void asked.fetchNextPage()}>
            Show older
          </Button>
        </div>
      )}
    </Panel>
  );
}

function Entry({ entry }: { entry: AuditEntryOut }) {
  return (
    <tr>
      <td className="settings-when" title={clock(entry.at)}>
        <Ago at={entry.at} />
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
