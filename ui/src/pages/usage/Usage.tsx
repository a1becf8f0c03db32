// The usage page: a chart over time, a table with totals, and the caller's quotas.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "@/kit/Button";
import { SegmentedControl } from "@/kit/fields";
import { EmptyState, PageHeader, Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { QuotaPanel } from "@/pages/usage/QuotaPanel";
import { BY, type UsageSearch } from "@/pages/usage/search";
import { UsageChart } from "@/pages/usage/UsageChart";
import { UsageTable } from "@/pages/usage/UsageTable";
import { makeAddress, makePeriod, type UsageGrouping, usage } from "@/pages/usage/usageQuery";
import { groupRows, type Measure, makeLayers } from "@/pages/usage/usageSums";
import { useHasScope } from "@/shell/me";
import "@/pages/usage/usage.css";

const BY_WORDS: Record<UsageGrouping, string> = {
  model: "Models",
  key: "Keys",
  user: "Users",
  call: "Endpoints",
  node: "Nodes",
};
const MEASURE_WORDS: Record<Measure, string> = { tokens: "Tokens", requests: "Requests", errors: "Errors" };
const SPAN_WORDS = { day: "24 hours", week: "7 days", month: "30 days" } as const;
const options = <T extends string>(words: Record<T, string>) =>
  (Object.keys(words) as T[]).map((value) => ({ value, label: words[value] }));

export default function Usage() {
  const { by = "model", span = "week", of = "tokens", only, mine } = useSearch({ from: "/usage" });
  const navigate = useNavigate({ from: "/usage" });
  const say = (part: Partial<UsageSearch>) => void navigate({ search: (was) => ({ ...was, ...part }) });
  const queries = useQueryClient();
  const seesAll = useHasScope("operate");
  // The time at which the page was opened: a period that moved with the clock would be queried at each render.
  const [now, setNow] = useState(() => Date.now());
  const period = makePeriod(span, now);
  const isMine = !seesAll || mine === true;
  const about = { from: new Date(period.steps[0] ?? now).toISOString(), mine: isMine };
  const whole = useQuery(usage({ ...about, by }));
  const overTime = useQuery(usage({ ...about, by: `${by},${period.step}` }));
  const readAgain = () => {
    setNow(Date.now());
    void queries.invalidateQueries({ queryKey: ["usage"] });
  };
  return (
    <>
      <PageHeader title="Usage" note={isMine ? "Your usage." : "Usage of all users, as billed."}>
        <Button icon="again" busy={whole.isFetching} onClick={readAgain}>
          Refresh
        </Button>
        <a
          className="button plain"
          href={makeAddress({ ...about, by: `${by},${period.step}` }, "csv")}
          download
        >
          Export CSV
        </a>
      </PageHeader>
      <div className="row usage-filters">
        <SegmentedControl
          label="Time"
          value={span}
          options={options(SPAN_WORDS)}
          onChange={(word) => say({ span: word === "week" ? undefined : word })}
        />
        <SegmentedControl
          label="By"
          value={by}
          options={BY.filter((one) => seesAll || one !== "user").map((value) => ({
            value,
            label: BY_WORDS[value],
          }))}
          onChange={(word) => say({ by: word === "model" ? undefined : word, only: undefined })}
        />
        <SegmentedControl
          label="Measure"
          value={of}
          options={options(MEASURE_WORDS)}
          onChange={(word) => say({ of: word === "tokens" ? undefined : word })}
        />
        {seesAll && (
          <SegmentedControl
            label="Scope"
            value={isMine ? "mine" : "all"}
            options={[
              { value: "all", label: "Everybody" },
              { value: "mine", label: "Mine" },
            ]}
            onChange={(word) => say({ mine: word === "mine" ? true : undefined, only: undefined })}
          />
        )}
      </div>
      <div className="stack">
        <QueryView query={whole}>
          {(data) => {
            const groups = groupRows(data.rows, by, of);
            if (groups.length === 0) return <NoUsage isMine={isMine} />;
            const chosen = only === undefined ? groups : groups.filter((group) => group.id === only);
            const layers = makeLayers(overTime.data?.rows ?? [], chosen, period.steps, by, of);
            return (
              <>
                <Panel
                  title={`${MEASURE_WORDS[of]} ${period.step === "hour" ? "per hour" : "per day"}`}
                  actions={
                    only !== undefined && (
                      <Button small icon="cross" onClick={() => say({ only: undefined })}>
                        {`Clear selection (${chosen[0]?.name ?? only})`}
                      </Button>
                    )
                  }
                >
                  {overTime.data ? (
                    <UsageChart layers={layers} period={period} measure={MEASURE_WORDS[of].toLowerCase()} />
                  ) : null}
                </Panel>
                <UsageTable
                  title={`By ${by}`}
                  groups={groups}
                  total={data.total}
                  isCut={data.is_cut ?? false}
                  measure={of}
                  only={only}
                  onOnly={(id) => say({ only: id === only ? undefined : id })}
                />
              </>
            );
          }}
        </QueryView>
        <QuotaPanel now={now} />
      </div>
    </>
  );
}

function NoUsage({ isMine }: { isMine: boolean }) {
  return (
    <EmptyState title={isMine ? "You have no usage in this period." : "No usage in this period."}>
      Send a request in the playground; it appears within seconds.
    </EmptyState>
  );
}
