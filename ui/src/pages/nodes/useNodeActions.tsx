// What a node offers now, as items of a menu; what cannot be taken back asks first.
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { asProblem } from "@/api/client";
import type { NodeOut } from "@/api/schema";
import { Confirm } from "@/kit/Confirm";
import type { MenuItem } from "@/kit/Menu";
import { useToast } from "@/kit/toasts";
import { approve, drain, probe, remove, resume, stopWorker } from "@/pages/nodes/calls";
import { plural } from "@/text/format";

type Asked = "drain" | "remove" | "stop";

interface NodeActions {
  items: MenuItem[];
  approve: () => void;
  /** The question that is open, to be rendered somewhere. */
  dialog: ReactNode;
}

export function useNodeActions(node: NodeOut, onRemoved?: () => void): NodeActions {
  const queries = useQueryClient();
  const toast = useToast();
  const [asked, ask] = useState<Asked | null>(null);
  const isDraining = node.conditions.some((fact) => fact.name === "draining" && fact.holds);

  const done = async (work: Promise<unknown>, said: string) => {
    await work;
    toast(said);
    await queries.invalidateQueries({ queryKey: ["nodes"] });
  };
  const now = (work: () => Promise<unknown>, said: string) => () =>
    void done(work(), said).catch((error: unknown) => toast(asProblem(error).message, "bad"));
  const letIn = now(() => approve(node.id), `${node.name} takes part now.`);

  const items: MenuItem[] = [];
  if (node.status === "pending") items.push({ label: "Approve", icon: "check", onSelect: letIn });
  if (isDraining)
    items.push({
      label: "Resume",
      icon: "play",
      onSelect: now(() => resume(node.id), `${node.name} takes work again.`),
    });
  else items.push({ label: "Drain", icon: "pause", onSelect: () => ask("drain") });
  items.push(
    {
      label: "Ask it over the bus",
      icon: "again",
      onSelect: now(() => probe(node.id), `${node.name} has answered.`),
    },
    { label: "Stop its worker", icon: "stop", onSelect: () => ask("stop") },
    { label: "Remove", icon: "trash", danger: true, onSelect: () => ask("remove") },
  );
  return { items, approve: letIn, dialog: asked && question(asked) };

  function question(which: Asked): ReactNode {
    const close = () => ask(null);
    if (which === "drain") {
      return (
        <Confirm
          title={`Drain ${node.name}?`}
          verb={`Drain ${node.name}`}
          danger={false}
          onClose={close}
          onConfirm={() => done(drain(node.id), `${node.name} gets no new work.`)}
        >
          It finishes what it does and gets no new work, also after a restart of its worker, until somebody
          resumes it. What it still owes is no longer waited for.
        </Confirm>
      );
    }
    if (which === "stop") {
      return (
        <Confirm
          title={`Stop the worker of ${node.name}?`}
          verb="Stop the worker"
          onClose={close}
          onConfirm={() => done(stopWorker(node.id), `${node.name} was asked to end.`)}
        >
          The worker finishes and ends. Whoever supervises it on that machine may start it again.
        </Confirm>
      );
    }
    return (
      <Confirm
        title={`Remove ${node.name}?`}
        verb={`Remove ${node.name}`}
        onClose={close}
        onConfirm={() => done(remove(node.id), `${node.name} is gone.`).then(onRemoved)}
      >
        It is forgotten with everything that hangs on it: {plural(node.model_count ?? 0, "replica")}, labels,
        budget, what it owes. It is cut off the bus. To come back it needs a new token.
      </Confirm>
    );
  }
}
