// Who has used how much of what: columns over time, a table with totals, and what is left of one's quotas.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Segments } from "@/kit/fields";
import { Empty, PageHead, Panel } from "@/kit/Panel";
import { Columns } from "@/pages/usage/Columns";
import { Left } from "@/pages/usage/Left";
import { addressOf, type By, periodOf, usage } from "@/pages/usage/question";
import { BY, type UsageSearch } from "@/pages/usage/search";
import { groupsOf, layersOf, type Measure } from "@/pages/usage/sums";
import { Table } from "@/pages/usage/Table";
import { useMay } from "@/shell/me";
import "@/pages/usage/usage.css";

const BY_WORDS: Record<By, string> = {
  model: "Models",
  key: "Keys",
  user: "Users",
  call: "Calls",
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
  const seesAll = useMay("operate");
  // The moment at which the page was opened: a period that moved with the clock would ask again with each drawing.
  const [now, setNow] = useState(() => Date.now());
  const period = periodOf(span, now);
  const isMine = !seesAll || mine === true;
  const about = { from: new Date(period.steps[0] ?? now).toISOString(), mine: isMine };
  const whole = useQuery(usage({ ...about, by }));
  const overTime = useQuery(usage({ ...about, by: `${by},${period.step}` }));
  const readAnew = () => {
    setNow(Date.now());
    void queries.invalidateQueries({ queryKey: ["usage"] });
  };
  return (
    <>
      <PageHead
        title="Usage"
        note={isMine ? "What you have used." : "What everybody has used, as it is counted for bills."}
      >
        <Button icon="again" busy={whole.isFetching} onClick={readAnew}>
          Read anew
        </Button>
        <a
          className="button plain"
          href={addressOf({ ...about, by: `${by},${period.step}` }, "csv")}
          download
        >
          Export CSV
        </a>
      </PageHead>
      <div className="row usage-filters">
        <Segments
          label="Time"
          value={span}
          options={options(SPAN_WORDS)}
          onChange={(word) => say({ span: word === "week" ? undefined : word })}
        />
        <Segments
          label="By"
          value={by}
          options={BY.filter((one) => seesAll || one !== "user").map((value) => ({
            value,
            label: BY_WORDS[value],
          }))}
          onChange={(word) => say({ by: word === "model" ? undefined : word, only: undefined })}
        />
        <Segments
          label="What is drawn"
          value={of}
          options={options(MEASURE_WORDS)}
          onChange={(word) => say({ of: word === "tokens" ? undefined : word })}
        />
        {seesAll && (
          <Segments
            label="Whose"
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
        <Answered query={whole}>
          {(data) => {
            const groups = groupsOf(data.rows, by, of);
            if (groups.length === 0) return <Nothing isMine={isMine} />;
            const chosen = only === undefined ? groups : groups.filter((group) => group.id === only);
            const layers = layersOf(overTime.data?.rows ?? [], chosen, period.steps, by, of);
            return (
              <>
                <Panel
                  title={`${MEASURE_WORDS[of]} ${period.step === "hour" ? "by the hour" : "by the day"}`}
                  actions={
                    only !== undefined && (
                      <Button small icon="cross" onClick={() => say({ only: undefined })}>
                        {`Show all, not ${chosen[0]?.name ?? only} alone`}
                      </Button>
                    )
                  }
                >
                  {overTime.data ? (
                    <Columns layers={layers} period={period} measure={MEASURE_WORDS[of].toLowerCase()} />
                  ) : null}
                </Panel>
                <Table
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
        </Answered>
        <Left now={now} />
      </div>
    </>
  );
}

function Nothing({ isMine }: { isMine: boolean }) {
  return (
    <Empty title={isMine ? "You have used nothing in this time." : "Nothing was used in this time."}>
      Ask a model in the playground; it is counted within a few seconds.
    </Empty>
  );
}
