// The form of a key: a new one, or what an old one may from now on.
import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { KeyMade, KeyOut, KeyPatch } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { Select, TextArea, TextField } from "@/kit/fields";
import { Trouble } from "@/kit/Trouble";
import { useToast } from "@/kit/toasts";
import { changeKey, makeKey, users } from "@/pages/access/calls";
import {
  AS_IT_IS,
  faultOf,
  formOf,
  type KeyForm,
  LIFETIMES,
  patchOf,
  SCOPES,
  wishOf,
} from "@/pages/access/keyform";
import { LimitFields } from "@/pages/access/LimitFields";

interface KeyDialogProps {
  /** Null: a new one. */
  entry: KeyOut | null;
  onClose: () => void;
  onMade: (made: KeyMade) => void;
}

export function KeyDialog({ entry, onClose, onMade }: KeyDialogProps) {
  const toast = useToast();
  const [form, setForm] = useState(() => formOf(entry));
  const [fault, setFault] = useState<string | null>(null);
  const set = (part: Partial<KeyForm>) => setForm((was) => ({ ...was, ...part }));
  const asked = useMutation({
    mutationFn: async () => {
      if (entry) await changeKey(entry.id, patchOf(entry, form) as KeyPatch);
      else onMade(await makeKey(wishOf(form)));
    },
    onSuccess: () => {
      if (entry) toast(`${form.name} is changed. It holds from the next request.`);
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const found = faultOf(form);
    setFault(found);
    if (!found) asked.mutate();
  };
  return (
    <Dialog title={entry ? `Edit ${entry.name}` : "New key"} onClose={onClose} wide>
      <form className="stack" onSubmit={submit}>
        <div className="columns">
          <TextField
            label="Name"
            hint="What uses it: each program deserves a key of its own."
            value={form.name}
            required
            maxLength={100}
            autoFocus
            onChange={(event) => set({ name: event.target.value })}
          />
          <Select
            label="What it may do"
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
          <Select label="Ends" value={form.ends} onChange={(event) => set({ ends: event.target.value })}>
            {entry && <option value={AS_IT_IS}>as it is now</option>}
            {LIFETIMES.map((life) => (
              <option key={life.value} value={life.value}>
                {life.label}
              </option>
            ))}
          </Select>
        </div>
        <TextArea
          label="Models that it may ask"
          placeholder={"llama-*\nqwen"}
          value={form.models}
          rows={2}
          onChange={(event) => set({ models: event.target.value })}
        />
        <p className="small soft access-under">
          One pattern a line, such as llama-*. Nothing here: every model.
        </p>
        <LimitFields lines={form.limits} onChange={(limits) => set({ limits })} />
        {fault && (
          <p className="bad-text" role="alert">
            {fault}
          </p>
        )}
        <Trouble error={asked.error} />
        <div className="row access-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={asked.isPending}>
            {entry ? "Save" : "Make the key"}
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
      hint={entry ? "The owner of a key stays." : "It can do no more than its owner may."}
      onChange={(event) => onChange(event.target.value)}
    >
      <option value="">nobody</option>
      {(value && !names.includes(value) ? [value, ...names] : names).map((name) => (
        <option key={name}>{name}</option>
      ))}
    </Select>
  );
}
