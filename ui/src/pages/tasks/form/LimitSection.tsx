// Limits of each job of a task, and the nodes that may execute it. Closed until it is needed.
import { TextField } from "@/kit/fields";
import { PairFields } from "@/kit/PairFields";
import type { SectionProps } from "@/pages/tasks/TaskFormPage";

const FIELDS = ["wallS", "steps", "toolCalls", "tokens", "attempts", "labels"] as const;

export function LimitSection({ form, faults, set }: SectionProps) {
  const hasFault = FIELDS.some((field) => faults[field]);
  return (
    <details className="panel tasks-more" open={hasFault || undefined}>
      <summary>
        <h2 className="tasks-summary">Limits and nodes</h2>
      </summary>
      <div className="stack">
        <p className="soft small">Of each job. Empty: no limit, or the default of the cluster.</p>
        <div className="columns tasks-limits">
          <TextField
            label="Time limit in seconds"
            type="number"
            min={1}
            max={86400}
            value={form.wallS}
            error={faults.wallS ?? null}
            onChange={(event) => set({ wallS: event.target.value })}
          />
          <TextField
            label="Model calls"
            type="number"
            min={1}
            max={1000}
            value={form.steps}
            error={faults.steps ?? null}
            onChange={(event) => set({ steps: event.target.value })}
          />
          <TextField
            label="Tool calls"
            type="number"
            min={0}
            value={form.toolCalls}
            error={faults.toolCalls ?? null}
            onChange={(event) => set({ toolCalls: event.target.value })}
          />
          <TextField
            label="Tokens"
            type="number"
            min={1}
            value={form.tokens}
            error={faults.tokens ?? null}
            onChange={(event) => set({ tokens: event.target.value })}
          />
          <TextField
            label="Attempts for a usable answer"
            type="number"
            min={1}
            max={10}
            value={form.attempts}
            error={faults.attempts ?? null}
            onChange={(event) => set({ attempts: event.target.value })}
          />
        </div>
        <PairFields
          label="Labels of the node"
          noun="label"
          hint="Jobs run only on agent nodes that have all of them."
          error={faults.labels}
          namePlaceholder="zone"
          valuePlaceholder="barn"
          pairs={form.labels}
          onChange={(labels) => set({ labels })}
        />
      </div>
    </details>
  );
}
