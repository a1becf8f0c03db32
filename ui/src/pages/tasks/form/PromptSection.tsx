// Name, model and prompt of a task, with the parameters that the prompt uses.
import { useQuery } from "@tanstack/react-query";
import { api, unwrapResponse } from "@/api/client";
import { Checkbox, Select, TextArea, TextField } from "@/kit/fields";
import { Panel } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import type { SectionProps } from "@/pages/tasks/TaskFormPage";

/** The models that the caller may use, as the playground lists them. */
const modelsQuery = {
  queryKey: ["models", "capabilities"],
  queryFn: async () => (await unwrapResponse(api.GET("/api/models/capabilities"))).data,
} as const;

export function PromptSection({ form, faults, set, names }: SectionProps & { names: readonly string[] }) {
  return (
    <Panel title="Task">
      <div className="columns">
        <TextField
          label="Name"
          hint="Programs call the task by it."
          value={form.name}
          error={faults.name ?? null}
          maxLength={100}
          placeholder="weather"
          onChange={(event) => set({ name: event.target.value })}
        />
        <ModelChoice form={form} faults={faults} set={set} />
      </div>
      <TextField
        label="Description"
        value={form.description}
        error={faults.description ?? null}
        maxLength={2000}
        placeholder="What the task is for"
        onChange={(event) => set({ description: event.target.value })}
      />
      <TextArea
        label="Prompt"
        value={form.prompt}
        error={faults.prompt ?? null}
        rows={8}
        className="tasks-code"
        placeholder="What should I wear in {{ city }} today?"
        onChange={(event) => set({ prompt: event.target.value })}
      />
      <p className="row small soft tasks-under" role="status" aria-label="Parameters of the prompt">
        {names.length === 0 ? (
          <span>
            Write <code>{"{{ name }}"}</code> for what each run fills in. <code>{"{% if %}"}</code>,{" "}
            <code>{"{% for %}"}</code> and filters work, too.
          </span>
        ) : (
          "Parameters:"
        )}
        {names.map((name) => (
          <Tag key={name}>{name}</Tag>
        ))}
      </p>
      <Checkbox
        label="Enabled"
        hint="A disabled task does not run, neither on its schedule nor on request."
        checked={form.isEnabled}
        onChange={(event) => set({ isEnabled: event.target.checked })}
      />
    </Panel>
  );
}

function ModelChoice({ form, faults, set }: SectionProps) {
  const { data, error } = useQuery(modelsQuery);
  const models = (data ?? [])
    .filter((model) => !model.disabled && model.capabilities.includes("chat"))
    .map((model) => model.name)
    .sort();
  const isKnown = form.model === "" || models.includes(form.model);
  const hint = error
    ? "The list of models cannot be read."
    : data && models.length === 0
      ? "No model can chat yet. Install one first."
      : "Loads by itself when a job needs it.";
  return (
    <Select
      label="Model"
      hint={hint}
      value={form.model}
      error={faults.model ?? null}
      aria-invalid={faults.model ? true : undefined}
      onChange={(event) => set({ model: event.target.value })}
    >
      <option value="">Select a model</option>
      {!isKnown && <option>{form.model}</option>}
      {models.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </Select>
  );
}
