// The placement of the next replica: its node, the time it takes, evicted replicas, and why other nodes are refused.
import { useMutation, useQuery } from "@tanstack/react-query";
import type { LoadPlanOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Icon } from "@/kit/icons";
import { QueryView } from "@/kit/QueryView";
import { useToast } from "@/kit/toasts";
import { loadModel, loadPlanQuery } from "@/pages/models/calls";
import { choiceSentences, describePlan, otherNodes } from "@/pages/models/plan";

export function NextPlacement({ model }: { model: string }) {
  const plan = useQuery(loadPlanQuery(model));
  return <QueryView query={plan}>{(found) => <PlacementChoices model={model} plan={found} />}</QueryView>;
}

function PlacementChoices({ model, plan }: { model: string; plan: LoadPlanOut }) {
  const toast = useToast();
  const start = useMutation({
    mutationFn: (node: string | null) => loadModel(model, node ? [node] : null),
    onSuccess: (operation) => toast(operation.message),
  });
  const others = otherNodes(plan);
  const refused = plan.refused ?? [];
  return (
    <div className="stack tight">
      <div className="row apart">
        <p role="status">
          <strong>{describePlan(plan)}</strong>
        </p>
        {plan.fits && (
          <Button
            small
            icon="play"
            busy={start.isPending}
            aria-label={`Load one more replica of ${model}`}
            onClick={() => start.mutate(null)}
          >
            Load
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
                Also fits; {one.sentence}
                <Button
                  small
                  kind="quiet"
                  aria-label={`Load ${model} on ${one.node_name}`}
                  onClick={() => start.mutate(one.node_name)}
                >
                  Load
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
      <ErrorNotice error={start.error} />
    </div>
  );
}
