// Forms about users: a new one, another scope, another password.
import { useMutation } from "@tanstack/react-query";
import type { FormEvent, ReactNode } from "react";
import type { UserIn, UserOut, UserPatch } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { Select, TextField } from "@/kit/fields";
import { Trouble } from "@/kit/Trouble";
import { useToast } from "@/kit/toasts";
import { changeUser, makeUser } from "@/pages/access/calls";
import { SCOPES } from "@/pages/access/keyform";

interface AskedProps {
  title: string;
  verb: string;
  said: string;
  onAsk: (form: FormData) => Promise<unknown>;
  onClose: () => void;
  children: ReactNode;
}

function Asked({ title, verb, said, onAsk, onClose, children }: AskedProps) {
  const toast = useToast();
  const asked = useMutation({
    mutationFn: onAsk,
    onSuccess: () => {
      toast(said);
      onClose();
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    asked.mutate(new FormData(event.currentTarget));
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {children}
        <Trouble error={asked.error} />
        <div className="row access-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={asked.isPending}>
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function ScopeSelect({ value }: { value: string }) {
  return (
    <Select label="What they may do" name="scope" defaultValue={value}>
      {SCOPES.map((scope) => (
        <option key={scope.value} value={scope.value}>
          {scope.label}
        </option>
      ))}
    </Select>
  );
}

const said = (form: FormData, name: string) => String(form.get(name) ?? "");

export function NewUserDialog({ onClose }: { onClose: () => void }) {
  return (
    <Asked
      title="New user"
      verb="Make the user"
      said="The user can come in."
      onClose={onClose}
      onAsk={(form) =>
        makeUser({
          name: said(form, "name").trim(),
          scope: said(form, "scope") as UserIn["scope"],
          password: said(form, "password") || null,
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
        hint="Letters and digits, or an address of mail."
      />
      <ScopeSelect value="infer" />
      <TextField
        label="Password"
        name="password"
        type="password"
        minLength={8}
        autoComplete="new-password"
        hint="At least 8 characters. Without one they can hold keys only."
      />
    </Asked>
  );
}

export function ScopeDialog({ user, onClose }: { user: UserOut; onClose: () => void }) {
  return (
    <Asked
      title={`What ${user.name} may do`}
      verb="Save"
      said={`${user.name} has another scope.`}
      onClose={onClose}
      onAsk={(form) => changeUser(user.id, { scope: said(form, "scope") as UserPatch["scope"] })}
    >
      <ScopeSelect value={user.scope} />
      <p className="small soft">Their keys can do no more than they may themselves.</p>
    </Asked>
  );
}

export function PasswordDialog({ user, onClose }: { user: UserOut; onClose: () => void }) {
  return (
    <Asked
      title={`A new password for ${user.name}`}
      verb="Set the password"
      said={`${user.name} has a new password.`}
      onClose={onClose}
      onAsk={(form) => changeUser(user.id, { password: said(form, "password") })}
    >
      <TextField
        label="New password"
        name="password"
        type="password"
        required
        minLength={8}
        autoFocus
        autoComplete="new-password"
        hint="At least 8 characters. It ends the sessions of the old one."
      />
    </Asked>
  );
}
