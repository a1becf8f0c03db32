// A new join token: its secret, this once, and the command for the machine.
import { useMutation, useQuery } from "@tanstack/react-query";
import type { FormEvent } from "react";
import type { JoinOut, TokenMade } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Copy } from "@/kit/Copy";
import { Dialog } from "@/kit/Dialog";
import { Checkbox, Select, TextField } from "@/kit/fields";
import { ShownOnce } from "@/kit/ShownOnce";
import { Trouble } from "@/kit/Trouble";
import { commandFor, joinCommands } from "@/pages/nodes/joining";
import { Unreachable } from "@/pages/nodes/Unreachable";
import { makeToken } from "@/pages/settings/calls";

const LIVES = [
  { value: "3600", label: "one hour" },
  { value: "86400", label: "one day" },
  { value: "604800", label: "one week" },
  { value: "", label: "for ever" },
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
  if (made.data) return <Made made={made.data} join={join.data} onClose={onClose} />;
  return (
    <Dialog title="New join token" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <Trouble error={join.error} />
        {join.data && <Unreachable join={join.data} />}
        <TextField label="Name" name="name" required autoFocus maxLength={100} placeholder="rack 2" />
        <div className="columns">
          <TextField
            label="Machines"
            name="uses"
            type="number"
            min={1}
            max={100_000}
            defaultValue={1}
            hint="Nothing: any number."
          />
          <Select label="Works for" name="life" defaultValue="86400">
            {LIVES.map((life) => (
              <option key={life.value} value={life.value}>
                {life.label}
              </option>
            ))}
          </Select>
        </div>
        <Checkbox
          name="approves"
          label="Machines with it need no approval"
          hint="Only where nobody else can read it."
        />
        <Trouble error={made.error} />
        <div className="row settings-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={made.isPending}>
            Make the token
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function Made({ made, join, onClose }: { made: TokenMade; join?: JoinOut; onClose: () => void }) {
  return (
    <ShownOnce
      title={`The token ${made.name}`}
      advice="Run this on the machine that is to join:"
      onClose={onClose}
    >
      {join && <Copy text={commandFor("curl", join, made.token)} label="the command" />}
      <Copy text={made.token} label={`the token ${made.name}`} />
    </ShownOnce>
  );
}
