// The control of one field of the form, with its hint and its error.
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useId } from "react";
import { Checkbox, Select, TextArea, TextField } from "@/kit/fields";
import { agentsQuery, chatModelsQuery, declaredServersQuery } from "@/pages/agents/calls";
import {
  type Draft,
  type FieldErrors,
  type FormField,
  listChoices,
  type Pair,
  type ServerDraft,
  TOOL_RULES,
} from "@/pages/agents/form";
import { McpServersField } from "@/pages/agents/McpServersField";
import { PairsField } from "@/pages/agents/PairsField";
import { skillsQuery } from "@/pages/skills/calls";
import { useHasScope } from "@/shell/me";

interface FormControlProps {
  field: FormField;
  /** Where its error stands: its name, behind that of its group if it is in one. */
  path: string;
  value: unknown;
  errors: FieldErrors;
  /** The name of the agent that is edited. */
  self: string | undefined;
  onChange: (value: unknown) => void;
}

export function FormControl({ field, path, value, errors, self, onChange }: FormControlProps) {
  const { label, description } = field;
  const error = errors[path] ?? null;
  const hint = description ? <HintText text={description} /> : undefined;
  switch (field.control) {
    case "flag":
      return (
        <div className="form-wide">
          <Checkbox
            label={label}
            hint={hint}
            checked={value === true}
            onChange={(event) => onChange(event.target.checked)}
          />
          {error && (
            <p className="small bad-text" role="alert">
              {error}
            </p>
          )}
        </div>
      );
    case "number":
      return (
        <TextField
          type="number"
          inputMode={field.isInteger ? "numeric" : "decimal"}
          label={label}
          hint={hint}
          error={error}
          placeholder={field.default === null ? "not set" : String(field.default)}
          min={field.minimum ?? undefined}
          max={field.maximum ?? undefined}
          step={field.isInteger ? 1 : "any"}
          value={(value as number | null) ?? ""}
          onChange={(event) => onChange(event.target.value === "" ? null : Number(event.target.value))}
        />
      );
    case "choice":
      return (
        <Select
          label={label}
          hint={hint}
          error={error}
          value={String(value)}
          onChange={(event) => onChange(event.target.value)}
        >
          {field.options.map((option) => (
            <option key={option}>{option}</option>
          ))}
        </Select>
      );
    case "model":
      return <ModelField {...{ label, hint, error }} value={String(value)} onChange={onChange} />;
    case "servers":
      return (
        <McpServersField
          {...{ label, hint, error }}
          servers={value as readonly ServerDraft[]}
          onChange={onChange}
        />
      );
    case "declared":
      return (
        <DeclaredServersField {...{ label, hint, error }} chosen={value as string[]} onChange={onChange} />
      );
    case "skills":
      return <SkillsField {...{ label, hint, error }} chosen={value as string[]} onChange={onChange} />;
    case "agents":
      return <AgentsField {...{ label, hint, error, self }} chosen={value as string[]} onChange={onChange} />;
    case "rules":
      return (
        <PairsField
          {...{ label, hint, error }}
          noun="rule"
          keyLabel="Tool or pattern"
          keyExample="files__*"
          options={TOOL_RULES}
          isOrdered
          pairs={value as readonly Pair[]}
          onChange={onChange}
        />
      );
    case "pairs":
      return (
        <PairsField
          {...{ label, hint, error }}
          noun="label"
          keyLabel="Name"
          keyExample="zone"
          pairs={value as readonly Pair[]}
          onChange={onChange}
        />
      );
    case "group":
      return (
        <fieldset className="form-group form-wide">
          <legend>{label}</legend>
          <div className="form-fields">
            {field.fields.map((inner) => (
              <FormControl
                key={inner.name}
                field={inner}
                path={`${path}.${inner.name}`}
                value={(value as Draft)[inner.name]}
                errors={errors}
                self={self}
                onChange={(changed) => onChange({ ...(value as Draft), [inner.name]: changed })}
              />
            ))}
          </div>
        </fieldset>
      );
    case "long":
    case "json":
      return (
        <div className="form-wide">
          <TextArea
            label={label}
            hint={hint}
            error={error}
            rows={field.name === "system_prompt" ? 7 : 4}
            maxLength={field.maxLength ?? undefined}
            spellCheck={field.control === "long"}
            value={String(value)}
            onChange={(event) => onChange(event.target.value)}
          />
        </div>
      );
    case "text":
      return (
        <TextField
          label={label}
          hint={hint}
          error={error}
          placeholder={field.example}
          required={field.isRequired}
          maxLength={field.maxLength ?? undefined}
          value={String(value)}
          onChange={(event) => onChange(event.target.value)}
        />
      );
  }
}

/** A sentence in which code stands between backticks. */
export function HintText({ text }: { text: string }) {
  return text.split("`").map((part, place) =>
    place % 2 === 1 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: a sentence does not change
      <code key={place}>{part}</code>
    ) : (
      part
    ),
  );
}

interface FieldProps<T> {
  label: string;
  hint: ReactNode;
  error: string | null;
  onChange: (value: T) => void;
}

function ModelField({ label, hint, error, value, onChange }: FieldProps<string> & { value: string }) {
  const { data: models, isPending } = useQuery(chatModelsQuery);
  // Without any model to choose, its name is written: it may be installed later.
  if (!isPending && (models ?? []).length === 0) {
    return (
      <TextField
        label={label}
        hint="No installed model can chat yet. Write the name of one that will be installed."
        error={error}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    );
  }
  const choices = listChoices(value ? [value] : [], models ?? []);
  return (
    <Select
      label={label}
      hint={hint}
      error={error}
      value={value}
      onChange={(event) => onChange(event.target.value)}
    >
      {!value && <option value="">Choose a model</option>}
      {choices.map(({ name, isGone }) => (
        <option key={name} value={name}>
          {isGone && !isPending ? `${name} (not installed)` : name}
        </option>
      ))}
    </Select>
  );
}

function DeclaredServersField({ chosen, ...rest }: FieldProps<string[]> & { chosen: string[] }) {
  const { data: servers = [] } = useQuery(declaredServersQuery);
  const notes = Object.fromEntries(servers.map((server) => [server.name, server.description ?? ""]));
  return (
    <NamesField
      {...rest}
      chosen={chosen}
      offered={servers.map((server) => server.name)}
      notes={notes}
      empty="No server is declared. Admins declare programs and servers in private networks for everybody."
    />
  );
}

function AgentsField({
  chosen,
  self,
  ...rest
}: FieldProps<string[]> & { chosen: string[]; self: string | undefined }) {
  const { data: agents = [] } = useQuery(agentsQuery(false, useHasScope("operate")));
  const others = agents.filter((agent) => agent.name !== self);
  return (
    <NamesField
      {...rest}
      chosen={chosen}
      offered={[...new Set(others.map((agent) => agent.name))]}
      notes={Object.fromEntries(others.map((agent) => [agent.name, agent.description ?? ""]))}
      empty="You have no other agents."
    />
  );
}

function SkillsField({ chosen, ...rest }: FieldProps<string[]> & { chosen: string[] }) {
  const { data: skills = [] } = useQuery(skillsQuery(useHasScope("operate")));
  return (
    <NamesField
      {...rest}
      chosen={chosen}
      offered={[...new Set(skills.map((skill) => skill.name))]}
      notes={Object.fromEntries(skills.map((skill) => [skill.name, skill.description]))}
      empty="There are no skills yet. Write or import one on the Skills page."
    />
  );
}

interface NamesFieldProps extends FieldProps<string[]> {
  chosen: string[];
  offered: string[];
  notes: Record<string, string>;
  empty: string;
}

/** Names to check. One that was chosen and does not exist any more is shown, and can be removed. */
function NamesField({ label, hint, error, chosen, offered, notes, empty, onChange }: NamesFieldProps) {
  const id = useId();
  const choices = listChoices(chosen, offered);
  const toggle = (name: string, isChosen: boolean) =>
    onChange(isChosen ? [...chosen, name] : chosen.filter((one) => one !== name));
  return (
    <fieldset
      className={`form-group form-wide ${error ? "form-invalid" : ""}`}
      aria-describedby={`${id}-hint`}
    >
      <legend>{label}</legend>
      <p className="small soft" id={`${id}-hint`}>
        {choices.length === 0 ? empty : hint}
      </p>
      {choices.map(({ name, isGone }) => (
        <Checkbox
          key={name}
          label={<code>{name}</code>}
          hint={isGone ? "does not exist any more" : notes[name]}
          checked={chosen.includes(name)}
          onChange={(event) => toggle(name, event.target.checked)}
        />
      ))}
      {error && (
        <p className="small bad-text" role="alert">
          {error}
        </p>
      )}
    </fieldset>
  );
}
