// A new machine: a token, the command to run there, and the machine itself as soon as it comes.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { answer, api } from "@/api/client";
import type { JoinOut, NodeOut, TokenMade } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Copy } from "@/kit/Copy";
import { Dialog } from "@/kit/Dialog";
import { Checkbox, Segments, Select, TextField } from "@/kit/fields";
import { Progress } from "@/kit/measures";
import { NodeStatus } from "@/kit/status";
import { Trouble } from "@/kit/Trouble";
import { arrivals, commandFor, joinCommands, PLATFORMS, type Platform } from "@/pages/nodes/joining";
import { Unreachable } from "@/pages/nodes/Unreachable";
import { useNodeActions } from "@/pages/nodes/useNodeActions";
import { hardwareOf } from "@/pages/nodes/words";
import { clock, plural } from "@/text/format";

const LIVES = [
  { seconds: 3600, label: "one hour" },
  { seconds: 24 * 3600, label: "one day" },
  { seconds: 7 * 24 * 3600, label: "one week" },
];

interface Wish {
  name: string;
  max_uses: number;
  expires_in_s: number;
  approves: boolean;
}

export function JoinDialog({ known, onClose }: { known: NodeOut[]; onClose: () => void }) {
  // Whoever was there when the dialog opened is not the machine that is waited for.
  const [before] = useState(known);
  const made = useMutation({
    mutationFn: (wish: Wish) => answer(api.POST("/api/tokens", { body: wish })),
  });
  const join = useQuery(joinCommands);
  return (
    <Dialog title="Add a machine" onClose={onClose} wide>
      <Trouble error={join.error} />
      {join.data && <Unreachable join={join.data} />}
      {made.data && join.data ? (
        <Command join={join.data} token={made.data} arrived={arrivals(before, known)} onClose={onClose} />
      ) : (
        <TokenForm isBusy={made.isPending} error={made.error} onMake={(wish) => made.mutate(wish)} />
      )}
    </Dialog>
  );
}

function Command({
  join,
  token,
  arrived,
  onClose,
}: {
  join: JoinOut;
  token: TokenMade;
  arrived: NodeOut[];
  onClose: () => void;
}) {
  const [platform, setPlatform] = useState<Platform>("curl");
  const wanted = token.max_uses ?? 1;
  return (
    <>
      <Segments label="The machine" value={platform} options={PLATFORMS} onChange={setPlatform} />
      <p>
        {platform === "installed"
          ? "Start its worker. It keeps running there; a service of the system may do the same."
          : "Run this there. It needs Python 3.11 or newer, installs Corral from this cluster and starts its worker."}
      </p>
      <Copy text={commandFor(platform, join, token.token)} label="the command that joins" />
      {platform !== "installed" && (
        <p className="small soft">
          Corral {join.version}; sha256 of its wheel: <code className="nodes-hash">{join.wheel_sha256}</code>
        </p>
      )}
      <p className="small soft">
        The token is shown here only. It is for {plural(wanted, "machine")}
        {token.expires_at && `, until ${clock(token.expires_at)}`}.
      </p>
      <section aria-live="polite" aria-label="Machines that have come" className="stack tight">
        {arrived.map((node) => (
          <Arrived key={node.id} node={node} onClose={onClose} />
        ))}
        {arrived.length < wanted && (
          <div className="nodes-waits soft">
            <Progress value={null} label="Waiting for the machine" />
            <p>
              {arrived.length === 0 ? "Waiting for the machine." : "Waiting for the next machine."} This
              window may be closed; it will be in the list.
            </p>
          </div>
        )}
      </section>
    </>
  );
}

function Arrived({ node, onClose }: { node: NodeOut; onClose: () => void }) {
  const actions = useNodeActions(node);
  return (
    <div className="row apart panel">
      <div>
        <div className="row">
          <Link to="/nodes/$node" params={{ node: node.name }} className="nodes-name" onClick={onClose}>
            {node.name}
          </Link>
          <NodeStatus status={node.status} reason={node.status_reason} />
        </div>
        <p className="small soft">{hardwareOf(node)}</p>
      </div>
      {node.status === "pending" ? (
        <Button
          kind="primary"
          busy={actions.pending === "approve"}
          aria-label={`Approve ${node.name}`}
          onClick={() => actions.run("approve")}
        >
          Approve
        </Button>
      ) : (
        node.status === "healthy" && <Button onClick={onClose}>Done</Button>
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
      name: String(form.get("name") ?? "").trim() || "from the page",
      max_uses: Number(form.get("uses")),
      expires_in_s: Number(form.get("life")),
      approves: form.get("approves") === "on",
    });
  };
  return (
    <form className="stack" onSubmit={submit}>
      <p>A machine joins with a token. Make one; you get the command to run there.</p>
      <div className="nodes-token">
        <TextField label="What the token is for" name="name" maxLength={100} placeholder="from the page" />
        <TextField
          label="Machines that may use it"
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
        <Button kind="primary" type="submit" busy={isBusy}>
          Make the command
        </Button>
      </div>
    </form>
  );
}
