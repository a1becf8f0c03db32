// What needs somebody, with the way there; one quiet line if nothing does.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Button } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { Panel } from "@/kit/Panel";
import { Trouble } from "@/kit/Trouble";
import { approve } from "@/pages/nodes/calls";
import type { Goal, Item } from "@/pages/overview/attention";

export function Attention({ items }: { items: readonly Item[] }) {
  if (items.length === 0) {
    return (
      <p className="overview-quiet">
        <Icon name="check" /> All is well: nothing needs you.
      </p>
    );
  }
  return (
    <Panel title="Needs attention">
      <ul className="plain overview-attention">
        {items.map((item) => (
          <Line key={item.key} item={item} />
        ))}
      </ul>
    </Panel>
  );
}

function Line({ item }: { item: Item }) {
  return (
    <li className={`overview-item ${item.tone}`}>
      <Icon name={item.tone === "busy" ? "up" : "warn"} />
      <div className="overview-said">
        <p>{item.title}</p>
        {item.detail && <p className="small soft overview-why">{item.detail}</p>}
      </div>
      <div className="row">
        {item.approves && <Approve node={item.approves} />}
        {item.goal && item.word && <To goal={item.goal} word={item.word} about={item.title} />}
      </div>
    </li>
  );
}

function Approve({ node }: { node: NonNullable<Item["approves"]> }) {
  const cache = useQueryClient();
  const approving = useMutation({
    mutationFn: () => approve(node),
    onSettled: () => cache.invalidateQueries({ queryKey: ["nodes"] }),
  });
  return (
    <>
      <Trouble error={approving.error} />
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

/** Every link has a name of its own, for whoever hears a list of links. */
function To({ goal, word, about }: { goal: Goal; word: string; about: string }) {
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
