// Labels by which rules find the node. Those of the machine stay as they are, those of the worker count once they are
// approved; those of an admin override and add.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef } from "react";
import type { NodeOut } from "@/api/schema";
import { Button, IconButton } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { TextField } from "@/kit/fields";
import { Panel } from "@/kit/Panel";
import { approveLabels, removeLabel, setLabel } from "@/pages/nodes/calls";
import { isAgent } from "@/pages/nodes/fleetSummary";
import { type LabelRow, labelRows, sourceWord } from "@/pages/nodes/one/words";

export function Labels({ node }: { node: NodeOut }) {
  const queries = useQueryClient();
  const form = useRef<HTMLFormElement>(null);
  const after = { onSettled: () => queries.invalidateQueries({ queryKey: ["nodes"] }) };
  const setting = useMutation({
    mutationFn: ({ key, value }: { key: string; value: string }) => setLabel(node.id, key, value),
    onSuccess: () => form.current?.reset(),
    ...after,
  });
  const dropping = useMutation({ mutationFn: (key: string) => removeLabel(node.id, key), ...after });

  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    setting.mutate({ key: String(data.get("key")).trim(), value: String(data.get("value")).trim() });
  };
  const edit = (row: LabelRow) => {
    const fields = form.current?.elements;
    const [key, value] = [fields?.namedItem("key"), fields?.namedItem("value")];
    if (!(key instanceof HTMLInputElement && value instanceof HTMLInputElement)) return;
    key.value = row.key;
    value.value = row.value;
    value.select();
  };
  return (
    <Panel
      title="Labels"
      note={isAgent(node) ? "Agents and tasks select nodes by label." : "Rules select nodes by label."}
    >
      <ul className="plain node-labels">
        {labelRows(node).map((row) => (
          <li key={row.key} className={row.isOurs ? "node-ours" : undefined}>
            {row.isFixed ? (
              <LabelPair row={row} />
            ) : (
              <button type="button" className="node-label" onClick={() => edit(row)}>
                <span className="unseen">Change label </span>
                <LabelPair row={row} />
              </button>
            )}
            {row.isOurs && (
              <IconButton
                icon="cross"
                label={`Remove label ${row.key}`}
                disabled={dropping.isPending}
                onClick={() => dropping.mutate(row.key)}
              />
            )}
          </li>
        ))}
      </ul>
      <ProposedLabels node={node} />
      <form ref={form} className="node-pair" onSubmit={submit}>
        <TextField label="Key" name="key" required maxLength={253} placeholder="zone" />
        <TextField label="Value" name="value" maxLength={63} placeholder="b" />
        <Button type="submit" busy={setting.isPending}>
          Set label
        </Button>
      </form>
      <ErrorNotice error={setting.error ?? dropping.error} />
    </Panel>
  );
}

function LabelPair({ row }: { row: LabelRow }) {
  return (
    <>
      <code>
        {row.key}={row.value}
      </code>
      <span className="small faint"> {sourceWord(row.source)}</span>
    </>
  );
}

/** Labels that the worker sends and no admin has approved. Those of a pending node are approved with it. */
function ProposedLabels({ node }: { node: NodeOut }) {
  const queries = useQueryClient();
  const approving = useMutation({
    mutationFn: () => approveLabels(node),
    onSettled: () => queries.invalidateQueries({ queryKey: ["nodes"] }),
  });
  const pairs = Object.entries(node.proposed_labels ?? {}).map(([key, value]) => `${key}=${value}`);
  if (pairs.length === 0) return null;
  return (
    <div className="row">
      <p className="small">
        Not approved, ignored by rules: <code>{pairs.join(", ")}</code>
      </p>
      {node.status !== "pending" && (
        <Button
          small
          aria-label={`Approve the labels of ${node.name}`}
          busy={approving.isPending}
          onClick={() => approving.mutate()}
        >
          Approve
        </Button>
      )}
      <ErrorNotice error={approving.error} />
    </div>
  );
}
