// The numbers behind the columns, with their total.
import type { UsageSumsOut } from "@/api/schema";
import { Panel } from "@/kit/Panel";
import { rightColumn, Table as Sheet } from "@/kit/Table";
import { getMeasure, type Measure, type UsageGroup } from "@/pages/usage/usageSums";
import { formatCount, percent, roundShares } from "@/text/format";

const COLUMNS = [
  "Name",
  rightColumn("Requests"),
  rightColumn("Errors"),
  rightColumn("Prompt tokens"),
  rightColumn("Cached"),
  rightColumn("Completion tokens"),
  rightColumn("Tokens"),
  "Share",
];

interface TableProps {
  title: string;
  groups: UsageGroup[];
  /** The totals of all rows, including those that are not listed. */
  total: UsageSumsOut;
  isCut: boolean;
  measure: Measure;
  only: string | undefined;
  onOnly: (id: string) => void;
}

export function UsageTable({ title, groups, total, isCut, measure, only, onOnly }: TableProps) {
  const parts = roundShares(
    groups.map((group) => getMeasure(group.sums, measure)),
    getMeasure(total, measure),
  );
  return (
    <Panel title={title} note="Select a name to filter.">
      <Sheet columns={COLUMNS}>
        <tbody>
          {groups.map((group, place) => (
            <tr key={group.id} className={group.id === only ? "usage-chosen" : undefined}>
              <th scope="row">
                <button
                  type="button"
                  className="usage-name"
                  aria-pressed={group.id === only}
                  onClick={() => onOnly(group.id)}
                >
                  {group.name}
                </button>
                {group.detail && <span className="small soft"> {group.detail}</span>}
              </th>
              <SumCells sums={group.sums} />
              <td>
                <ShareCell value={parts[place] ?? 0} />
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Total</th>
            <SumCells sums={total} />
            <td />
          </tr>
        </tfoot>
      </Sheet>
      {isCut && <p className="small soft">More rows exist; the CSV export has all of them.</p>}
      {total.estimated_tokens > 0 && (
        <p className="small soft">
          {formatCount(total.estimated_tokens)} completion tokens were estimated from stream events, because
          an engine reported no usage.
        </p>
      )}
    </Panel>
  );
}

function SumCells({ sums }: { sums: UsageSumsOut }) {
  const values = [
    sums.requests,
    sums.errors,
    sums.prompt_tokens,
    sums.cached_tokens,
    sums.completion_tokens,
    getMeasure(sums, "tokens"),
  ];
  return values.map((value, place) => (
    <td
      // biome-ignore lint/suspicious/noArrayIndexKey: the columns are fixed
      key={place}
      className={place === 1 && value > 0 ? "right number bad-text" : "right number"}
      title={value.toLocaleString("en")}
    >
      {formatCount(value)}
    </td>
  ));
}

function ShareCell({ value }: { value: number }) {
  return (
    <span className="usage-share">
      <span className="usage-share-bar" aria-hidden="true">
        <span style={{ width: `${value}%` }} />
      </span>
      <span className="number small">{percent(value)}</span>
    </span>
  );
}
