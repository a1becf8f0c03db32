// Adds a machine: a token, the command to run there, and the new node as soon as it has joined.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api, unwrapResponse } from "@/api/client";
import type { CreatedTokenOut, JoinOut, NodeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { CopyButton } from "@/kit/CopyButton";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Checkbox, SegmentedControl, Select, TextField } from "@/kit/fields";
import { Progress } from "@/kit/measures";
import { NodeStatus } from "@/kit/status";
import {
  joinCommands,
  listArrivals,
  makeJoinCommand,
  PLATFORMS,
  type Platform,
} from "@/pages/nodes/joinCommands";
import { UnreachableNotice } from "@/pages/nodes/UnreachableNotice";
import { useNodeActions } from "@/pages/nodes/useNodeActions";
import { describeHardware } from "@/pages/nodes/words";
import { formatMoment, plural } from "@/text/format";

const LIFETIMES = [
  { seconds: 3600, label: "one hour" },
  { seconds: 24 * 3600, label: "one day" },
  { seconds: 7 * 24 * 3600, label: "one week" },
];

interface TokenRequest {
  name: string;
  max_uses: number;
  expires_in_s: number;
  approves: boolean;
}

export function JoinDialog({ known, onClose }: { known: NodeOut[]; onClose: () => void }) {
  // Nodes that existed when the dialog opened are not the machine that is expected.
  const [before] = useState(known);
  const made = useMutation({
    mutationFn: (request: TokenRequest) => unwrapResponse(api.POST("/api/tokens", { body: request })),
  });
  const join = useQuery(joinCommands);
  return (
    <Dialog title="Add node" onClose={onClose} wide>
      <ErrorNotice error={join.error} />
      {join.data && <UnreachableNotice join={join.data} />}
      {made.data && join.data ? (
        <Command join={join.data} token={made.data} arrived={listArrivals(before, known)} onClose={onClose} />
      ) : (
        <TokenForm isBusy={made.isPending} error={made.error} onMake={(request) => made.mutate(request)} />
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
  token: CreatedTokenOut;
  arrived: NodeOut[];
  onClose: () => void;
}) {
  const [platform, setPlatform] = useState<Platform>("curl");
  const expected = token.max_uses ?? 1;
  return (
    <>
      <SegmentedControl label="Installation" value={platform} options={PLATFORMS} onChange={setPlatform} />
      <p>
        {platform === "installed"
          ? "Start the worker. It runs in the foreground; use a system service to start it at boot."
          : "Run this on the machine. It needs Python 3.11 or newer, installs Corral from this cluster and starts its worker."}
      </p>
      <CopyButton text={makeJoinCommand(platform, join, token.token)} label="the join command" />
      {platform !== "installed" && (
        <p className="small soft">
          Corral {join.version}; sha256 of its wheel: <code className="nodes-hash">{join.wheel_sha256}</code>
        </p>
      )}
      <p className="small soft">
        This token is shown only once. It works for {plural(expected, "machine")}
        {token.expires_at && ` until ${formatMoment(token.expires_at)}`}.
      </p>
      <section aria-live="polite" aria-label="Joined machines" className="stack tight">
        {arrived.map((node) => (
          <ArrivedNode key={node.id} node={node} onClose={onClose} />
        ))}
        {arrived.length < expected && (
          <div className="nodes-waits soft">
            <Progress value={null} label="Waiting for the machine" />
            <p>
              {arrived.length === 0 ? "Waiting for the machine." : "Waiting for the next machine."} You can
              close this dialog; the node appears in the list.
            </p>
          </div>
        )}
      </section>
    </>
  );
}

function ArrivedNode({ node, onClose }: { node: NodeOut; onClose: () => void }) {
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
        <p className="small soft">{describeHardware(node)}</p>
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
  onMake: (request: TokenRequest) => void;
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
      <p>A machine joins with a token. Create one to get the join command.</p>
      <div className="nodes-token">
        <TextField label="Token name" name="name" maxLength={100} placeholder="from the page" />
        <TextField
          label="Maximum uses"
          name="uses"
          type="number"
          min={1}
          max={1000}
          defaultValue={1}
          required
        />
        <Select label="Valid for" name="life" defaultValue={24 * 3600}>
          {LIFETIMES.map((life) => (
            <option key={life.seconds} value={life.seconds}>
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
      <ErrorNotice error={error} />
      <div className="row">
        <Button kind="primary" type="submit" busy={isBusy}>
          Create command
        </Button>
      </div>
    </form>
  );
}
