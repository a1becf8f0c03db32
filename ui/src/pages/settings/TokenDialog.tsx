// Creates a join token: shows its secret once, and the command for the machine.
import { useMutation, useQuery } from "@tanstack/react-query";
import type { FormEvent } from "react";
import type { CreatedTokenOut, JoinOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { CopyButton } from "@/kit/CopyButton";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Checkbox, Select, TextField } from "@/kit/fields";
import { OneTimeSecretDialog } from "@/kit/OneTimeSecretDialog";
import { joinCommands, makeJoinCommand } from "@/pages/nodes/joinCommands";
import { UnreachableNotice } from "@/pages/nodes/UnreachableNotice";
import { makeToken } from "@/pages/settings/calls";

const LIFETIMES = [
  { value: "3600", label: "one hour" },
  { value: "86400", label: "one day" },
  { value: "604800", label: "one week" },
  { value: "", label: "no expiry" },
];

export function TokenDialog({ onClose }: { onClose: () => void }) {
  const made = useMutation({ mutationFn: makeToken });
  const join = useQuery(joinCommands);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const uses = String(form.get("uses"));
    const life = String(form.get("life"));
    made.mutate({
      name: String(form.get("name")).trim(),
      max_uses: uses === "" ? null : Number(uses),
      expires_in_s: life === "" ? null : Number(life),
      approves: form.get("approves") === "on",
    });
  };
  if (made.data) return <CreatedToken made={made.data} join={join.data} onClose={onClose} />;
  return (
    <Dialog title="New join token" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <ErrorNotice error={join.error} />
        {join.data && <UnreachableNotice join={join.data} />}
        <TextField label="Name" name="name" required autoFocus maxLength={100} placeholder="rack 2" />
        <div className="columns">
          <TextField
            label="Maximum uses"
            name="uses"
            type="number"
            min={1}
            max={100_000}
            defaultValue={1}
            hint="Empty: unlimited."
          />
          <Select label="Valid for" name="life" defaultValue="86400">
            {LIFETIMES.map((life) => (
              <option key={life.value} value={life.value}>
                {life.label}
              </option>
            ))}
          </Select>
        </div>
        <Checkbox
          name="approves"
          label="Approve machines automatically"
          hint="Use only if no one else can read the token."
        />
        <ErrorNotice error={made.error} />
        <div className="row settings-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={made.isPending}>
            Create token
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function CreatedToken({
  made,
  join,
  onClose,
}: {
  made: CreatedTokenOut;
  join?: JoinOut;
  onClose: () => void;
}) {
  return (
    <OneTimeSecretDialog title={`Token ${made.name}`} advice="Run this on the machine:" onClose={onClose}>
      {join && <CopyButton text={makeJoinCommand("curl", join, made.token)} label="the command" />}
      <CopyButton text={made.token} label={`the token ${made.name}`} />
    </OneTimeSecretDialog>
  );
}
