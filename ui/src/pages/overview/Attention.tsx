// The items that need a person, each with a link; one quiet line if there are none.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Icon } from "@/kit/icons";
import { Panel } from "@/kit/Panel";
import { approveNode } from "@/pages/nodes/calls";
import type { AttentionItem, PageLink } from "@/pages/overview/attentionItems";

export function Attention({ items }: { items: readonly AttentionItem[] }) {
  if (items.length === 0) {
    return (
      <p className="overview-quiet">
        <Icon name="check" /> Everything is healthy.
      </p>
    );
  }
  return (
    <Panel title="Needs attention">
      <ul className="plain overview-attention">
        {items.map((item) => (
          <AttentionLine key={item.key} item={item} />
        ))}
      </ul>
    </Panel>
  );
}

function AttentionLine({ item }: { item: AttentionItem }) {
  return (
    <li className={`overview-item ${item.tone}`}>
      <Icon name={item.tone === "busy" ? "up" : "warn"} />
      <div className="overview-note">
        <p>{item.title}</p>
        {item.detail && <p className="small soft overview-why">{item.detail}</p>}
      </div>
      <div className="row">
        {item.approves && <ApproveButton node={item.approves} />}
        {item.goal && item.word && <AttentionLink goal={item.goal} word={item.word} about={item.title} />}
      </div>
    </li>
  );
}

function ApproveButton({ node }: { node: NonNullable<AttentionItem["approves"]> }) {
  const cache = useQueryClient();
  const approving = useMutation({
    mutationFn: () => approveNode(node),
    onSettled: () => cache.invalidateQueries({ queryKey: ["nodes"] }),
  });
  return (
    <>
      <ErrorNotice error={approving.error} />
      <Button
        small
        kind="primary"
        icon="check"
        aria-label={`Approve ${node.name}`}
        busy={approving.isPending}
        onClick={() => approving.mutate()}
      >
        Approve
      </Button>
    </>
  );
}

/** Every link has a name of its own, for screen readers that list the links. */
function AttentionLink({ goal, word, about }: { goal: PageLink; word: string; about: string }) {
  const shown = { className: "button plain small-button", "aria-label": `${word}: ${about}`, children: word };
  switch (goal.page) {
    case "operation":
      return <Link {...shown} to="/operations" search={{ operation: goal.id }} />;
    case "operations":
      return <Link {...shown} to="/operations" />;
    case "node":
      return <Link {...shown} to="/nodes/$node" params={{ node: goal.name }} />;
    case "nodes":
      return <Link {...shown} to="/nodes" search={goal.status ? { status: goal.status } : {}} />;
    case "backends":
      return <Link {...shown} to="/backends" search={goal.show ? { show: goal.show } : {}} />;
    case "model":
      return <Link {...shown} to="/models/$model" params={{ model: goal.name }} />;
  }
}
