// What Corral may use of the machine: how much VRAM, and how many replicas of one model.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { NodeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { TextField } from "@/kit/fields";
import { Panel } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import { Trouble } from "@/kit/Trouble";
import { resetBudget, resetSlots, setBudget, setSlots } from "@/pages/nodes/calls";
import { replicasOf } from "@/pages/nodes/one/queries";
import { overSlots } from "@/pages/nodes/one/words";
import { bytes, list } from "@/text/format";

export function Limits({ node }: { node: NodeOut }) {
  return (
    <Panel title="Limits" note="What is set here counts before the worker's own settings.">
      <Budget key={`budget ${node.vram_budget}`} node={node} />
      <Slots key={`slots ${node.max_replicas_per_model}`} node={node} />
    </Panel>
  );
}

function useChange<T>(work: (value: T) => Promise<unknown>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: work,
    onSettled: () => queries.invalidateQueries({ queryKey: ["nodes"] }),
  });
}

function Budget({ node }: { node: NodeOut }) {
  const change = useChange((value: string | null) =>
    value === null ? resetBudget(node.id) : setBudget(node.id, value),
  );
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    change.mutate(String(new FormData(event.currentTarget).get("budget")).trim());
  };
  return (
    <form className="node-limit" onSubmit={submit}>
      <TextField
        label="VRAM budget"
        name="budget"
        defaultValue={node.vram_budget}
        placeholder="all of it"
        maxLength={64}
        hint={budgetHint(node)}
      />
      <Actions
        isSet={node.vram_budget_manually_set}
        what="VRAM budget"
        isBusy={change.isPending}
        onReset={() => change.mutate(null)}
      />
      <Trouble error={change.error} />
    </form>
  );
}

function budgetHint(node: NodeOut): string {
  if (node.vram_budget_bytes != null && node.vram_budget) {
    const whole = node.total_vram ? ` of ${bytes(node.total_vram)}` : "";
    return `That is ${bytes(node.vram_budget_bytes)}${whole}.`;
  }
  if (!node.total_vram) return "The machine has told of no VRAM. 80%, 12GB, 12GiB.";
  return `All of its ${bytes(node.total_vram)}. 80%, 12GB, 12GiB.`;
}

function Slots({ node }: { node: NodeOut }) {
  const { data: replicas } = useQuery(replicasOf(node.id));
  const [wanted, want] = useState<number | null>(null);
  const change = useChange((value: number | null) =>
    value === null ? resetSlots(node.id) : setSlots(node.id, value),
  );
  const over = overSlots(replicas ?? [], wanted ?? Number.POSITIVE_INFINITY);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const value = Number(new FormData(event.currentTarget).get("slots"));
    if (overSlots(replicas ?? [], value).length > 0) want(value);
    else change.mutate(value);
  };
  return (
    <form className="node-limit" onSubmit={submit}>
      <TextField
        label="Replicas of one model"
        name="slots"
        type="number"
        min={1}
        max={1000}
        required
        defaultValue={node.max_replicas_per_model}
        hint="At most so many on this node."
      />
      <Actions
        isSet={node.max_replicas_per_model_manually_set}
        what="replica slots"
        isBusy={change.isPending}
        onReset={() => change.mutate(null)}
      />
      <Trouble error={change.error} />
      {wanted !== null && (
        <Confirm
          title="Fewer than are loaded?"
          verb={`Set it to ${wanted}`}
          onClose={() => want(null)}
          onConfirm={() => change.mutateAsync(wanted)}
        >
          More are loaded here of {list(over)}. They stay until they are unloaded; no new one is loaded.
        </Confirm>
      )}
    </form>
  );
}

interface ActionsProps {
  /** An admin has set it, whatever the worker says. */
  isSet: boolean;
  what: string;
  isBusy: boolean;
  onReset: () => void;
}

function Actions({ isSet, what, isBusy, onReset }: ActionsProps) {
  return (
    <div className="row">
      <Button small type="submit" busy={isBusy} aria-label={`Save the ${what}`}>
        Save
      </Button>
      {isSet && (
        <>
          <Button small kind="quiet" aria-label={`Reset the ${what}`} onClick={onReset}>
            Reset
          </Button>
          <Tag tone="warn" title="It counts before the worker's own setting.">
            set here
          </Tag>
        </>
      )}
    </div>
  );
}
