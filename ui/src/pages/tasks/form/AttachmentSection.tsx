// Attachments that are fetched for each job of a task.
import { Select, TextField } from "@/kit/fields";
import { PairFields } from "@/kit/PairFields";
import { nextId } from "@/kit/pairs";
import { LineGroups } from "@/pages/tasks/form/LineGroups";
import type { SectionProps } from "@/pages/tasks/TaskFormPage";
import type { SourceLine } from "@/pages/tasks/taskForm";

const KINDS = ["image", "audio", "video", "file"] as const;

export function AttachmentSection({ form, faults, set }: SectionProps) {
  const { sources } = form;
  return (
    <LineGroups
      title="Attachments"
      note="Fetched from the web for each job, and sent to the model with the prompt."
      noun="attachment"
      addLabel="Add attachment"
      lines={sources}
      make={(): SourceLine => ({ id: nextId(sources), type: "image", url: "", headers: [] })}
      onChange={(sources) => set({ sources })}
    >
      {(line, place, change) => (
        <>
          <div className="tasks-line">
            <Select
              label="Kind"
              value={line.type}
              onChange={(event) => change({ type: event.target.value as SourceLine["type"] })}
            >
              {KINDS.map((kind) => (
                <option key={kind}>{kind}</option>
              ))}
            </Select>
            <TextField
              label="Address"
              type="url"
              value={line.url}
              error={faults[`sources.${place}.url`] ?? null}
              placeholder="https://example.org/picture.png"
              onChange={(event) => change({ url: event.target.value })}
            />
          </div>
          <PairFields
            label="Headers"
            noun="header"
            error={faults[`sources.${place}.headers`]}
            namePlaceholder="Authorization"
            valuePlaceholder="Bearer secret:NAME"
            pairs={line.headers}
            onChange={(headers) => change({ headers })}
          />
        </>
      )}
    </LineGroups>
  );
}
