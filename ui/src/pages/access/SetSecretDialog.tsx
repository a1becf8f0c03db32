// The form that stores the value of a secret: a new one, or another value of one that exists.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { FormEvent } from "react";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextArea, TextField } from "@/kit/fields";
import { useToast } from "@/kit/toasts";
import { type SecretScope, setSecret } from "@/pages/access/calls";

interface SetSecretDialogProps {
  scope: SecretScope;
  /** The secret to replace; null for a new one. */
  name: string | null;
  onClose: () => void;
}

export function SetSecretDialog({ scope, name, onClose }: SetSecretDialogProps) {
  const toast = useToast();
  const cache = useQueryClient();
  const submission = useMutation({
    mutationFn: ({ chosen, value }: { chosen: string; value: string }) => setSecret(scope, chosen, value),
    // The value stays nowhere in this page.
    gcTime: 0,
    onSuccess: (stored) => {
      toast(`Stored ${stored.name}. Configurations refer to it as ${stored.reference}.`);
      void cache.invalidateQueries({ queryKey: ["secrets"] });
      onClose();
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const chosen = name ?? String(form.get("name") ?? "").trim();
    // Browsers send line breaks of forms as two characters.
    submission.mutate({ chosen, value: String(form.get("value") ?? "").replaceAll("\r\n", "\n") });
  };
  return (
    <Dialog title={titleOf(scope, name)} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {name === null && (
          <TextField
            label="Name"
            name="name"
            hint="Letters, digits, dots, dashes and underscores."
            placeholder="hub-token"
            required
            maxLength={100}
            autoFocus
          />
        )}
        <TextArea label="Value" name="value" required autoComplete="off" autoFocus={name !== null} rows={3} />
        <p className="small soft access-under">
          It is sealed in the database and never shown again
          {scope === "own" ? ", not even to admins." : "."}
        </p>
        <ErrorNotice error={submission.error} />
        <div className="row access-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={submission.isPending}>
            {name === null ? "Store secret" : "Replace value"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function titleOf(scope: SecretScope, name: string | null): string {
  if (name !== null) return `Replace the value of ${name}`;
  return scope === "own" ? "New secret" : "New secret of the cluster";
}
