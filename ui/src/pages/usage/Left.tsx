// My limits, and how much of the day's and the month's is used.
import { useQuery } from "@tanstack/react-query";
import { Meter } from "@/kit/measures";
import { Panel } from "@/kit/Panel";
import { monthBegan, pacesOf, quotasOf } from "@/pages/usage/left";
import { usage } from "@/pages/usage/question";
import { useMe } from "@/shell/me";
import { count } from "@/text/format";

export function Left({ now }: { now: number }) {
  const { limits } = useMe();
  const { data } = useQuery({
    ...usage({ by: "model,day", from: monthBegan(now), mine: true }),
    enabled: limits.length > 0,
  });
  if (limits.length === 0) return null;
  const paces = pacesOf(limits);
  return (
    <Panel title="Your limits" note="Days and months are those of UTC.">
      <div className="columns">
        {quotasOf(limits, data?.rows ?? [], now).map((quota) => (
          <Meter
            key={`${quota.model} ${quota.period}`}
            label={`${quota.model || "All models"}, this ${quota.period}`}
            used={data ? quota.used : null}
            total={quota.limit}
            text={
              data
                ? `${count(Math.max(0, quota.limit - quota.used))} of ${count(quota.limit)} tokens left`
                : `${count(quota.limit)} tokens`
            }
          />
        ))}
      </div>
      {paces.length > 0 && (
        <ul className="plain">
          {paces.map((pace) => (
            <li key={`${pace.model} ${pace.words}`}>
              {pace.model || "All models"}: {count(pace.limit)} {pace.words}
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
