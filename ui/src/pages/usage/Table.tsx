// The numbers behind the columns, with their total.
import type { SumsOut } from "@/api/schema";
import { Panel } from "@/kit/Panel";
import { right, Table as Sheet } from "@/kit/Table";
import { type Group, type Measure, measured } from "@/pages/usage/sums";
import { count, percent, shares } from "@/text/format";

const COLUMNS = [
  "Name",
  right("Requests"),
  right("Errors"),
  right("Prompts"),
  right("Cached"),
  right("Answers"),
  right("Tokens"),
  "Share",
];

interface TableProps {
  title: string;
  groups: Group[];
  /** Of all, also of rows that were left out. */
  total: SumsOut;
  isCut: boolean;
  measure: Measure;
  only: string | undefined;
  onOnly: (id: string) => void;
}

export function Table({ title, groups, total, isCut, measure, only, onOnly }: TableProps) {
  const parts = shares(
    groups.map((group) => measured(group.sums, measure)),
    measured(total, measure),
  );
  return (
    <Panel title={title} note="Choose a name to see it alone.">
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
              <Numbers sums={group.sums} />
              <td>
                <Share value={parts[place] ?? 0} />
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Total</th>
            <Numbers sums={total} />
            <td />
          </tr>
        </tfoot>
      </Sheet>
      {isCut && <p className="small soft">There are more rows than are shown here. The CSV has them all.</p>}
      {total.estimated_tokens > 0 && (
        <p className="small soft">
          {count(total.estimated_tokens)} tokens of answers were counted by events, because an engine did not
          tell.
        </p>
      )}
    </Panel>
  );
}

function Numbers({ sums }: { sums: SumsOut }) {
  const values = [
    sums.requests,
    sums.errors,
    sums.prompt_tokens,
    sums.cached_tokens,
    sums.completion_tokens,
    measured(sums, "tokens"),
  ];
  return values.map((value, place) => (
    <td
      // biome-ignore lint/suspicious/noArrayIndexKey: the columns are fixed
      key={place}
      className={place === 1 && value > 0 ? "right number bad-text" : "right number"}
      title={value.toLocaleString("en")}
    >
      {count(value)}
    </td>
  ));
}

function Share({ value }: { value: number }) {
  return (
    <span className="usage-share">
      <span className="usage-share-bar" aria-hidden="true">
        <span style={{ width: `${value}%` }} />
      </span>
      <span className="number small">{percent(value)}</span>
    </span>
  );
}
