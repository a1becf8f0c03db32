// Whom a task notifies when a job has ended, and what the notifications are signed with.
import { Select, TextArea, TextField } from "@/kit/fields";
import { PairFields } from "@/kit/PairFields";
import { nextId } from "@/kit/pairs";
import { LineGroups } from "@/pages/tasks/form/LineGroups";
import type { SectionProps } from "@/pages/tasks/TaskFormPage";
import type { WebhookLine } from "@/pages/tasks/taskForm";

export function WebhookSection({ form, faults, set }: SectionProps) {
  const { webhooks } = form;
  return (
    <LineGroups
      title="Webhooks"
      note="Called when a job has completed, failed or was cancelled."
      noun="webhook"
      addLabel="Add webhook"
      lines={webhooks}
      make={(): WebhookLine => ({ id: nextId(webhooks), url: "", method: "POST", headers: [], payload: "" })}
      onChange={(webhooks) => set({ webhooks })}
      after={
        webhooks.length > 0 && (
          <TextField
            label="Signing secret"
            hint="Empty: the task has a secret of its own, which its page shows. Or a reference: secret:NAME."
            value={form.webhookSecret}
            error={faults.webhook_secret ?? null}
            placeholder="secret:NAME"
            onChange={(event) => set({ webhookSecret: event.target.value })}
          />
        )
      }
    >
      {(line, place, change) => (
        <>
          <div className="tasks-line">
            <Select
              label="Method"
              value={line.method}
              onChange={(event) => change({ method: event.target.value })}
            >
              <option>POST</option>
              <option>PUT</option>
              <option>PATCH</option>
            </Select>
            <TextField
              label="Address"
              value={line.url}
              error={faults[`webhooks.${place}.url`] ?? null}
              placeholder="https://example.org/hook or secret:NAME"
              onChange={(event) => change({ url: event.target.value })}
            />
          </div>
          <PairFields
            label="Headers"
            noun="header"
            error={faults[`webhooks.${place}.headers`]}
            namePlaceholder="Authorization"
            valuePlaceholder="Bearer secret:NAME"
            pairs={line.headers}
            onChange={(headers) => change({ headers })}
          />
          <TextArea
            label="Body"
            hint="A template with job, task, status, result, error and parameters. Empty: all of them as JSON."
            rows={2}
            className="tasks-code"
            placeholder={'{"text": {{ result | json }}}'}
            value={line.payload}
            onChange={(event) => change({ payload: event.target.value })}
          />
        </>
      )}
    </LineGroups>
  );
}
