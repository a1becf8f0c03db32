// A new machine: a token, the command to run there, and the machine itself as soon as it comes.
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { answer, api } from "@/api/client";
import type { NodeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Copy } from "@/kit/Copy";
import { Dialog } from "@/kit/Dialog";
import { Checkbox, Segments, Select, TextField } from "@/kit/fields";
import { NodeStatus } from "@/kit/status";
import { Trouble } from "@/kit/Trouble";
import { PLATFORMS, type Platform, stepsFor } from "@/pages/nodes/joining";
import { useNodeActions } from "@/pages/nodes/useNodeActions";
import { hardwareOf } from "@/pages/nodes/words";

const LIVES = [
  { seconds: 3600, label: "one hour" },
  { seconds: 24 * 3600, label: "one day" },
  { seconds: 7 * 24 * 3600, label: "one week" },
];

interface Wish {
  max_uses: number;
  expires_in_s: number;
  approves: boolean;
}

export function JoinDialog({ known, onClose }: { known: NodeOut[]; onClose: () => void }) {
  // Whoever was there when the dialog opened is not the machine that is waited for.
  const [before] = useState(() => new Set(known.map((node) => node.id)));
  const [platform, setPlatform] = useState<Platform>("linux");
  const made = useMutation({
    mutationFn: (wish: Wish) => answer(api.POST("/api/tokens", { body: { name: "from the page", ...wish } })),
  });
  const arrived = known.filter((node) => !before.has(node.id));
  return (
    <Dialog title="Add a machine" onClose={onClose} wide>
      {made.data ? (
        <>
          <Segments label="Platform" value={platform} options={PLATFORMS} onChange={setPlatform} />
          <ol className="nodes-steps">
            {stepsFor(platform, window.location.origin, made.data.token).map((step) => (
              <li key={step.sentence}>
                <p>{step.sentence}</p>
                {step.command && <Copy text={step.command} label={step.label} />}
              </li>
            ))}
          </ol>
          <p className="small soft">
            The token is shown here only. This window waits for the machine; it may be closed.
          </p>
          <section aria-live="polite" className="stack tight">
            {arrived.length === 0 && <p className="soft">Nobody has come yet.</p>}
            {arrived.map((node) => (
              <Arrived key={node.id} node={node} />
            ))}
          </section>
        </>
      ) : (
        <TokenForm isBusy={made.isPending} error={made.error} onMake={(wish) => made.mutate(wish)} />
      )}
    </Dialog>
  );
}

function Arrived({ node }: { node: NodeOut }) {
  const actions = useNodeActions(node);
  return (
    <div className="row apart panel">
      <div>
        <strong>{node.name}</strong> <NodeStatus status={node.status} reason={node.status_reason} />
        <p className="small soft">{hardwareOf(node)}</p>
      </div>
      {node.status === "pending" && (
        <Button kind="primary" aria-label={`Approve ${node.name}`} onClick={actions.approve}>
          Approve
        </Button>
      )}
    </div>
  );
}

function TokenForm({
  isBusy,
  error,
  onMake,
}: {
  isBusy: boolean;
  error: unknown;
  onMake: (wish: Wish) => void;
}) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    onMake({
      max_uses: Number(form.get("uses")),
      expires_in_s: Number(form.get("life")),
      approves: form.get("approves") === "on",
    });
  };
  return (
    <form className="stack" onSubmit={submit}>
      <p>A machine joins with a token. Make one; you get the command to run there.</p>
      <div className="columns">
        <TextField
          label="How many machines may use it"
          name="uses"
          type="number"
          min={1}
          max={1000}
          defaultValue={1}
          required
        />
        <Select label="How long it works" name="life" defaultValue={24 * 3600}>
          {LIVES.map((life) => (
            <option key={life.seconds} value={life.seconds}>
              {life.label}
            </option>
          ))}
        </Select>
      </div>
      <Checkbox
        name="approves"
        label="Machines with this token need no approval"
        hint="Only where nobody else can read it."
      />
      <Trouble error={error} />
      <div className="row">
        <Button kind="primary" type="submit" busy={isBusy} autoFocus>
          Make the command
        </Button>
      </div>
    </form>
  );
}
