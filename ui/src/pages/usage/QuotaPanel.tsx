// The caller's limits, and how much of the daily and monthly ones is used.
import { useQuery } from "@tanstack/react-query";
import { Meter } from "@/kit/measures";
import { Panel } from "@/kit/Panel";
import { computeMonthStart, listQuotas, listRateLimits } from "@/pages/usage/quotas";
import { usage } from "@/pages/usage/usageQuery";
import { useMe } from "@/shell/me";
import { formatCount } from "@/text/format";

export function QuotaPanel({ now }: { now: number }) {
  const { limits } = useMe();
  const { data } = useQuery({
    ...usage({ by: "model,day", from: computeMonthStart(now), mine: true }),
    enabled: limits.length > 0,
  });
  if (limits.length === 0) return null;
  const paces = listRateLimits(limits);
  return (
    <Panel title="Your limits" note="Days and months are in UTC.">
      <div className="columns">
        {listQuotas(limits, data?.rows ?? [], now).map((quota) => (
          <Meter
            key={`${quota.model} ${quota.period}`}
            label={`${quota.model || "All models"}, this ${quota.period}`}
            used={data ? quota.used : null}
            total={quota.limit}
            text={
              data
                ? `${formatCount(Math.max(0, quota.limit - quota.used))} of ${formatCount(quota.limit)} tokens left`
                : `${formatCount(quota.limit)} tokens`
            }
          />
        ))}
      </div>
      {paces.length > 0 && (
        <ul className="plain">
          {paces.map((pace) => (
            <li key={`${pace.model} ${pace.words}`}>
              {pace.model || "All models"}: {formatCount(pace.limit)} {pace.words}
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
