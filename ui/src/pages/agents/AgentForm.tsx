// The form of an agent by sections, generated from the metadata of the API, so that it shows no field without effect.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useBlocker } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { asProblem } from "@/api/client";
import type { AgentConfigOut, AgentIn, AgentMetadataOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { agentFormQuery } from "@/pages/agents/calls";
import { FormControl } from "@/pages/agents/FormControl";
import {
  type Draft,
  type FieldErrors,
  isSameDraft,
  listFieldErrors,
  listSections,
  makeDraft,
  readDraft,
} from "@/pages/agents/form";
import { useHasScope } from "@/shell/me";
import "@/pages/agents/form.css";

interface AgentFormProps {
  /** The configuration to edit; null for a new agent. */
  config: Record<string, unknown> | null;
  /** The name of the agent itself, which cannot be one of its own tools. */
  name?: string;
  verb: string;
  /** Whether the caller may look at it only. */
  isReadOnly?: boolean;
  onSubmit: (body: AgentIn) => Promise<AgentConfigOut>;
  onSaved: (agent: AgentConfigOut) => void;
}

export function AgentForm(props: AgentFormProps) {
  const metadata = useQuery(agentFormQuery);
  return <QueryView query={metadata}>{(found) => <LoadedForm {...props} metadata={found} />}</QueryView>;
}

const NOTES: Record<string, string> = {
  tools: "What the agent may use. Without any of these it only talks.",
  schedule: "Let the agent work by itself, without a message.",
};
/** Sections that are folded until they are opened or hold an error: their defaults suit most agents. */
const FOLDED = new Set(["execution", "schedule"]);
const NO_ERRORS: FieldErrors = {};

function LoadedForm({
  metadata,
  config,
  name,
  verb,
  isReadOnly = false,
  onSubmit,
  onSaved,
}: AgentFormProps & { metadata: AgentMetadataOut }) {
  const isAdmin = useHasScope("admin");
  const sections = useMemo(() => listSections(metadata, isAdmin), [metadata, isAdmin]);
  const stored = useMemo(() => makeDraft(sections, config ?? {}), [sections, config]);
  const [base, setBase] = useState(stored);
  const [draft, setDraft] = useState<Draft>(stored);
  const [errors, setErrors] = useState(NO_ERRORS);
  // Set before the page leaves after a save, which must not warn about what was just saved.
  const isSaved = useRef(false);
  const form = useRef<HTMLFormElement>(null);
  const isChanged = !isSameDraft(draft, base);
  const isNewer = !isSameDraft(stored, base);
  const begin = (from: Draft) => {
    setBase(from);
    setDraft(from);
    setErrors(NO_ERRORS);
    save.reset();
  };
  const save = useMutation({
    mutationFn: (body: Record<string, unknown>) => onSubmit(body as unknown as AgentIn),
    onSuccess: (agent) => {
      isSaved.current = true;
      begin(makeDraft(sections, agent.config));
      onSaved(agent);
    },
    onError: (error) => setErrors(listFieldErrors(asProblem(error), sections)),
  });
  // An edit of another user replaces a form without changes.
  if (isNewer && !isChanged && !save.isPending) begin(stored);
  useEffect(() => {
    if (Object.keys(errors).length > 0)
      form.current
        ?.querySelector<HTMLElement>('[aria-invalid="true"], .form-invalid :is(input, button)')
        ?.focus();
  }, [errors]);
  const leaving = useBlocker({
    shouldBlockFn: ({ current, next }) =>
      isChanged && !isSaved.current && !(current.pathname === next.pathname && isSameSearch(current, next)),
    withResolver: true,
    enableBeforeUnload: isChanged,
  });
  const change = useCallback((field: string, value: unknown) => {
    isSaved.current = false;
    setDraft((before) => ({ ...before, [field]: value }));
    setErrors((before) => {
      const kept = Object.entries(before).filter(([path]) => path.split(".")[0] !== field);
      return kept.length === Object.keys(before).length ? before : Object.fromEntries(kept);
    });
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const { body, errors: found } = readDraft(sections, draft);
    setErrors(found);
    save.reset();
    if (Object.keys(found).length === 0) save.mutate(body);
  };
  const hasFieldErrors = Object.keys(errors).length > 0;
  return (
    <form className="stack agent-form" ref={form} onSubmit={submit} noValidate>
      {isNewer && isChanged && (
        <div className="agents-report warn" role="status">
          <p>The configuration was changed elsewhere. Saving replaces that change.</p>
          <Button small onClick={() => begin(stored)}>
            Discard mine and show it
          </Button>
        </div>
      )}
      {isReadOnly && (
        <p className="soft">Only its owner and admins change this agent. Clone it to have one of your own.</p>
      )}
      <fieldset className="stack form-all" disabled={isReadOnly}>
        {sections.map((section) => {
          const fields = section.fields.map((field) => (
            <FormControl
              key={field.name}
              field={field}
              path={field.name}
              value={draft[field.name]}
              errors={errors}
              self={name}
              onChange={(value) => change(field.name, value)}
            />
          ));
          const hasError = section.fields.some((field) =>
            Object.keys(errors).some((path) => path.split(".")[0] === field.name),
          );
          if (!FOLDED.has(section.name)) {
            return (
              <Panel key={section.name} title={section.title} note={NOTES[section.name]}>
                <div className="form-fields">{fields}</div>
              </Panel>
            );
          }
          return (
            <FoldedSection
              key={section.name}
              title={section.title}
              note={NOTES[section.name]}
              isOpened={hasError || (section.name === "schedule" && base.standalone_job === true)}
            >
              {fields}
            </FoldedSection>
          );
        })}
      </fieldset>
      {save.error && !hasFieldErrors && <ErrorNotice error={save.error} />}
      {!isReadOnly && (
        <div className="row form-actions">
          <Button kind="primary" type="submit" busy={save.isPending} disabled={config !== null && !isChanged}>
            {verb}
          </Button>
          {config !== null && (
            <Button disabled={!isChanged || save.isPending} onClick={() => begin(stored)}>
              Discard changes
            </Button>
          )}
          <span className="small" role="status">
            {hasFieldErrors ? (
              <span className="bad-text">Nothing was saved. See the marked fields.</span>
            ) : (
              isChanged && <span className="soft">Not saved yet.</span>
            )}
          </span>
        </div>
      )}
      {leaving.status === "blocked" && (
        <ConfirmDialog
          title="Leave without saving?"
          verb="Discard changes and leave"
          dismissLabel="Stay"
          onConfirm={async () => leaving.proceed()}
          onClose={() => leaving.reset()}
        >
          <p>Your changes to this agent are not saved.</p>
        </ConfirmDialog>
      )}
    </form>
  );
}

const isSameSearch = (one: { search: unknown }, other: { search: unknown }): boolean =>
  JSON.stringify(one.search) === JSON.stringify(other.search);

interface FoldedSectionProps {
  title: string;
  note: string | undefined;
  /** Opens the section; it stays open afterwards. */
  isOpened: boolean;
  children: ReactNode;
}

function FoldedSection({ title, note, isOpened, children }: FoldedSectionProps) {
  const [isOpen, setOpen] = useState(isOpened);
  if (isOpened && !isOpen) setOpen(true);
  return (
    <details
      className="panel form-section"
      open={isOpen}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        <h2>{title}</h2>
      </summary>
      {note && <p className="soft small">{note}</p>}
      <div className="form-fields">{children}</div>
    </details>
  );
}
