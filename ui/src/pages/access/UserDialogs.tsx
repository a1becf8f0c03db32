// Forms about users: a new one, another scope, another password.
import { useMutation } from "@tanstack/react-query";
import type { FormEvent, ReactNode } from "react";
import type { UserIn, UserOut, UserPatch } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Select, TextField } from "@/kit/fields";
import { useToast } from "@/kit/toasts";
import { changeUser, makeUser } from "@/pages/access/calls";
import { SCOPES } from "@/pages/access/keyForm";

interface FormDialogProps {
  title: string;
  verb: string;
  doneMessage: string;
  onSubmit: (form: FormData) => Promise<unknown>;
  onClose: () => void;
  children: ReactNode;
}

function FormDialog({ title, verb, doneMessage: readField, onSubmit, onClose, children }: FormDialogProps) {
  const toast = useToast();
  const submission = useMutation({
    mutationFn: onSubmit,
    onSuccess: () => {
      toast(readField);
      onClose();
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    submission.mutate(new FormData(event.currentTarget));
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {children}
        <ErrorNotice error={submission.error} />
        <div className="row access-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={submission.isPending}>
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function ScopeSelect({ value }: { value: string }) {
  return (
    <Select label="Scope" name="scope" defaultValue={value}>
      {SCOPES.map((scope) => (
        <option key={scope.value} value={scope.value}>
          {scope.label}
        </option>
      ))}
    </Select>
  );
}

const readField = (form: FormData, name: string) => String(form.get(name) ?? "");

export function NewUserDialog({ onClose }: { onClose: () => void }) {
  return (
    <FormDialog
      title="New user"
      verb="Create user"
      doneMessage="Created the user."
      onClose={onClose}
      onSubmit={(form) =>
        makeUser({
          name: readField(form, "name").trim(),
          scope: readField(form, "scope") as UserIn["scope"],
          password: readField(form, "password") || null,
        })
      }
    >
      <TextField
        label="Name"
        name="name"
        required
        autoFocus
        maxLength={255}
        pattern="[A-Za-z0-9][A-Za-z0-9._@+\-]*"
        hint="Letters and digits, or an e-mail address."
      />
      <ScopeSelect value="infer" />
      <TextField
        label="Password"
        name="password"
        type="password"
        minLength={8}
        autoComplete="new-password"
        hint="At least 8 characters. Without one the user can only use keys."
      />
    </FormDialog>
  );
}

export function ScopeDialog({ user, onClose }: { user: UserOut; onClose: () => void }) {
  return (
    <FormDialog
      title={`Scope of ${user.name}`}
      verb="Save"
      doneMessage={`Changed the scope of ${user.name}.`}
      onClose={onClose}
      onSubmit={(form) => changeUser(user.id, { scope: readField(form, "scope") as UserPatch["scope"] })}
    >
      <ScopeSelect value={user.scope} />
      <p className="small soft">The scope also limits the user's keys.</p>
    </FormDialog>
  );
}

export function PasswordDialog({ user, onClose }: { user: UserOut; onClose: () => void }) {
  return (
    <FormDialog
      title={`New password for ${user.name}`}
      verb="Set password"
      doneMessage={`Changed the password of ${user.name}.`}
      onClose={onClose}
      onSubmit={(form) => changeUser(user.id, { password: readField(form, "password") })}
    >
      <TextField
        label="New password"
        name="password"
        type="password"
        required
        minLength={8}
        autoFocus
        autoComplete="new-password"
        hint="At least 8 characters. Existing sessions are signed out."
      />
    </FormDialog>
  );
}
