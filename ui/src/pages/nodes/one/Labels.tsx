// Labels by which rules find the node. Those of the machine stay as they are, those of the worker count once they are
// approved; ours cover and add.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef } from "react";
import type { NodeOut } from "@/api/schema";
import { Button, IconButton } from "@/kit/Button";
import { TextField } from "@/kit/fields";
import { Panel } from "@/kit/Panel";
import { Trouble } from "@/kit/Trouble";
import { approveLabels, dropLabel, setLabel } from "@/pages/nodes/calls";
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
  const dropping = useMutation({ mutationFn: (key: string) => dropLabel(node.id, key), ...after });

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
    <Panel title="Labels" note="Rules choose nodes by them.">
      <ul className="plain node-labels">
        {labelRows(node).map((row) => (
          <li key={row.key} className={row.isOurs ? "node-ours" : undefined}>
            {row.isFixed ? (
              <Pair row={row} />
            ) : (
              <button type="button" className="node-label" onClick={() => edit(row)}>
                <span className="unseen">Change label </span>
                <Pair row={row} />
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
      <Proposed node={node} />
      <form ref={form} className="node-pair" onSubmit={submit}>
        <TextField label="Key" name="key" required maxLength={253} placeholder="zone" />
        <TextField label="Value" name="value" maxLength={63} placeholder="b" />
        <Button type="submit" busy={setting.isPending}>
          Set label
        </Button>
      </form>
      <Trouble error={setting.error ?? dropping.error} />
    </Panel>
  );
}

function Pair({ row }: { row: LabelRow }) {
  return (
    <>
      <code>
        {row.key}={row.value}
      </code>
      <span className="small faint"> {sourceWord(row.source)}</span>
    </>
  );
}

/** Labels that the worker sends and nobody has approved. Those of a pending node are approved with it. */
function Proposed({ node }: { node: NodeOut }) {
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
        Not approved, so no rule sees {pairs.length === 1 ? "it" : "them"}: <code>{pairs.join(", ")}</code>
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
      <Trouble error={approving.error} />
    </div>
  );
}
