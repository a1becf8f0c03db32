// Where the next replica would go, how long that takes, what has to make room, and why not elsewhere.
import { useMutation, useQuery } from "@tanstack/react-query";
import type { LoadPlanOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { Trouble } from "@/kit/Trouble";
import { useToast } from "@/kit/toasts";
import { load, planOf } from "@/pages/models/calls";
import { choiceSentences, headOf, otherNodes } from "@/pages/models/plan";

export function NextPlace({ model }: { model: string }) {
  const plan = useQuery(planOf(model));
  return <Answered query={plan}>{(found) => <Place model={model} plan={found} />}</Answered>;
}

function Place({ model, plan }: { model: string; plan: LoadPlanOut }) {
  const toast = useToast();
  const start = useMutation({
    mutationFn: (node: string | null) => load(model, node ? [node] : null),
    onSuccess: (asked) => toast(asked.message),
  });
  const others = otherNodes(plan);
  const refused = plan.refused ?? [];
  return (
    <div className="stack tight">
      <div className="row apart">
        <p role="status">
          <strong>{headOf(plan)}</strong>
        </p>
        {plan.fits && (
          <Button
            small
            icon="play"
            busy={start.isPending}
            aria-label={`Load it there: one more replica of ${model}`}
            onClick={() => start.mutate(null)}
          >
            Load it there
          </Button>
        )}
      </div>
      {choiceSentences(plan).map((sentence) => (
        <p key={sentence} className="small soft">
          {sentence}
        </p>
      ))}
      {(plan.warnings ?? []).map((warning) => (
        <p key={warning} className="models-warning small">
          {warning}
        </p>
      ))}
      {(others.length > 0 || refused.length > 0) && (
        <ul className="plain small models-fits" aria-label="Other nodes">
          {others.map((one) => (
            <li key={one.node_id} className="models-fit">
              <Icon name="check" />
              <span className="number">{one.node_name}</span>
              <span className="soft row">
                It fits there too; {one.sentence}
                <Button
                  small
                  kind="quiet"
                  aria-label={`Load it here: ${model} on ${one.node_name}`}
                  onClick={() => start.mutate(one.node_name)}
                >
                  Load it here
                </Button>
              </span>
            </li>
          ))}
          {refused.map((one) => (
            <li key={one.node_id} className="models-fit not">
              <Icon name="cross" />
              <span className="number">{one.node_name}</span>
              <span className="soft">{one.sentence}</span>
            </li>
          ))}
        </ul>
      )}
      <Trouble error={start.error} />
    </div>
  );
}
