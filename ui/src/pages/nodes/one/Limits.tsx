// The limits of a node: how much VRAM Corral may use, and how many replicas of one model.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { NodeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextField } from "@/kit/fields";
import { Panel } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import { resetBudget, resetSlots, setBudget, setSlots } from "@/pages/nodes/calls";
import { replicasQuery } from "@/pages/nodes/one/queries";
import { describeSlotExcess } from "@/pages/nodes/one/words";
import { bytes, joinWords } from "@/text/format";

export function Limits({ node }: { node: NodeOut }) {
  return (
    <Panel title="Limits" note="Values set here override the worker's settings.">
      <Budget key={`budget ${node.vram_budget}`} node={node} />
      <SlotsForm key={`slots ${node.max_replicas_per_model}`} node={node} />
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
        placeholder="unlimited"
        maxLength={64}
        hint={budgetHint(node)}
      />
      <Actions
        isSet={node.vram_budget_manually_set}
        what="VRAM budget"
        isBusy={change.isPending}
        onReset={() => change.mutate(null)}
      />
      <ErrorNotice error={change.error} />
    </form>
  );
}

function budgetHint(node: NodeOut): string {
  if (node.vram_budget_bytes != null && node.vram_budget) {
    const whole = node.total_vram ? ` of ${bytes(node.total_vram)}` : "";
    return `That is ${bytes(node.vram_budget_bytes)}${whole}.`;
  }
  if (!node.total_vram) return "No VRAM reported. Examples: 80%, 12GB, 12GiB.";
  return `All ${bytes(node.total_vram)}. Examples: 80%, 12GB, 12GiB.`;
}

function SlotsForm({ node }: { node: NodeOut }) {
  const { data: replicas } = useQuery(replicasQuery(node.id));
  const [requested, setRequested] = useState<number | null>(null);
  const change = useChange((value: number | null) =>
    value === null ? resetSlots(node.id) : setSlots(node.id, value),
  );
  const excess = describeSlotExcess(replicas ?? [], requested ?? Number.POSITIVE_INFINITY);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const value = Number(new FormData(event.currentTarget).get("slots"));
    if (describeSlotExcess(replicas ?? [], value).length > 0) setRequested(value);
    else change.mutate(value);
  };
  return (
    <form className="node-limit" onSubmit={submit}>
      <TextField
        label="Replica slots per model"
        name="slots"
        type="number"
        min={1}
        max={1000}
        required
        defaultValue={node.max_replicas_per_model}
        hint="Maximum number of replicas of one model on this node."
      />
      <Actions
        isSet={node.max_replicas_per_model_manually_set}
        what="replica slots"
        isBusy={change.isPending}
        onReset={() => change.mutate(null)}
      />
      <ErrorNotice error={change.error} />
      {requested !== null && (
        <ConfirmDialog
          title="Set below the number of loaded replicas?"
          verb={`Set to ${requested}`}
          onClose={() => setRequested(null)}
          onConfirm={() => change.mutateAsync(requested)}
        >
          {joinWords(excess)} {excess.length === 1 ? "has" : "have"} more replicas here. They stay until
          unloaded; no new ones are loaded.
        </ConfirmDialog>
      )}
    </form>
  );
}

interface ActionsProps {
  /** Whether an admin has set the value, which overrides the worker's. */
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
          <Tag tone="warn" title="Overrides the worker's setting.">
            set here
          </Tag>
        </>
      )}
    </div>
  );
}
