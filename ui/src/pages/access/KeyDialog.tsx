// The form that creates or edits a key.
import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { CreatedKeyOut, KeyOut, KeyPatch } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Select, TextArea, TextField } from "@/kit/fields";
import { useToast } from "@/kit/toasts";
import { changeKey, makeKey, users } from "@/pages/access/calls";
import {
  findFault,
  type KeyForm,
  LIFETIMES,
  makeForm,
  makeKeyBody,
  makeKeyPatch,
  SCOPES,
  UNCHANGED,
} from "@/pages/access/keyForm";
import { LimitFields } from "@/pages/access/LimitFields";

interface KeyDialogProps {
  /** The key to edit; null for a new one. */
  entry: KeyOut | null;
  onClose: () => void;
  onMade: (made: CreatedKeyOut) => void;
}

export function KeyDialog({ entry, onClose, onMade }: KeyDialogProps) {
  const toast = useToast();
  const [form, setForm] = useState(() => makeForm(entry));
  const [fault, setFault] = useState<string | null>(null);
  const set = (part: Partial<KeyForm>) => setForm((was) => ({ ...was, ...part }));
  const submission = useMutation({
    mutationFn: async () => {
      if (entry) await changeKey(entry.id, makeKeyPatch(entry, form) as KeyPatch);
      else onMade(await makeKey(makeKeyBody(form)));
    },
    onSuccess: () => {
      if (entry) toast(`Saved ${form.name}. The change applies from the next request.`);
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const found = findFault(form);
    setFault(found);
    if (!found) submission.mutate();
  };
  return (
    <Dialog title={entry ? `Edit ${entry.name}` : "New key"} onClose={onClose} wide>
      <form className="stack" onSubmit={submit}>
        <div className="columns">
          <TextField
            label="Name"
            hint="Use one key per program."
            value={form.name}
            required
            maxLength={100}
            autoFocus
            onChange={(event) => set({ name: event.target.value })}
          />
          <Select
            label="Scope"
            value={form.scope}
            disabled={Boolean(entry?.node_id)}
            onChange={(event) => set({ scope: event.target.value })}
          >
            {SCOPES.map((scope) => (
              <option key={scope.value} value={scope.value}>
                {scope.label}
              </option>
            ))}
          </Select>
          <Owner entry={entry} value={form.user} onChange={(user) => set({ user })} />
          <Select label="Expires" value={form.ends} onChange={(event) => set({ ends: event.target.value })}>
            {entry && <option value={UNCHANGED}>unchanged</option>}
            {LIFETIMES.map((life) => (
              <option key={life.value} value={life.value}>
                {life.label}
              </option>
            ))}
          </Select>
        </div>
        <TextArea
          label="Allowed models"
          placeholder={"llama-*\nqwen"}
          value={form.models}
          rows={2}
          onChange={(event) => set({ models: event.target.value })}
        />
        <p className="small soft access-under">
          One pattern per line, for example llama-*. Empty: all models.
        </p>
        <LimitFields lines={form.limits} onChange={(limits) => set({ limits })} />
        {fault && (
          <p className="bad-text" role="alert">
            {fault}
          </p>
        )}
        <ErrorNotice error={submission.error} />
        <div className="row access-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={submission.isPending}>
            {entry ? "Save" : "Create key"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

interface OwnerProps {
  entry: KeyOut | null;
  value: string;
  onChange: (name: string) => void;
}

function Owner({ entry, value, onChange }: OwnerProps) {
  const { data } = useQuery(users);
  const names = (data ?? []).map((user) => user.name);
  return (
    <Select
      label="Owner"
      value={value}
      disabled={entry !== null}
      hint={entry ? "The owner cannot be changed." : "The scope is limited by the owner's."}
      onChange={(event) => onChange(event.target.value)}
    >
      <option value="">no owner</option>
      {(value && !names.includes(value) ? [value, ...names] : names).map((name) => (
        <option key={name}>{name}</option>
      ))}
    </Select>
  );
}
