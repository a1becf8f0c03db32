// What a node offers now, as items of a menu; what cannot be taken back asks first.
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { asProblem } from "@/api/client";
import type { NodeOut } from "@/api/schema";
import { Confirm } from "@/kit/Confirm";
import type { MenuItem } from "@/kit/Menu";
import { useToast } from "@/kit/toasts";
import { forgetNode, mayBeAsked } from "@/live/removed";
import { approve, drain, probe, remove, resume, stopWorker } from "@/pages/nodes/calls";
import { type Offer, type OfferId, offersOf } from "@/pages/nodes/offers";
import { lossOf } from "@/pages/nodes/words";

type Asked = "drain" | "remove" | "stop";

interface NodeActions {
  offers: Offer[];
  items: MenuItem[];
  run: (id: OfferId) => void;
  /** What has been begun and not been answered yet. */
  pending: OfferId | null;
  /** The question that is open, to be rendered somewhere. */
  dialog: ReactNode;
}

export function useNodeActions(node: NodeOut, onRemoved?: () => void): NodeActions {
  const queries = useQueryClient();
  const toast = useToast();
  const [asked, ask] = useState<Asked | null>(null);
  const [pending, setPending] = useState<OfferId | null>(null);

  const done = async (work: Promise<unknown>, said: string) => {
    await work;
    toast(said);
    await queries.invalidateQueries({ queryKey: ["nodes"], predicate: mayBeAsked });
  };
  const removeAndForget = async () => {
    await remove(node.id);
    onRemoved?.();
    forgetNode(queries, node.id);
  };
  const now = (id: OfferId, work: Promise<unknown>, said: string) => {
    setPending(id);
    void done(work, said)
      .catch((error: unknown) => toast(asProblem(error).message, "bad"))
      .finally(() => setPending(null));
  };
  const run = (id: OfferId) => {
    switch (id) {
      case "approve":
        return now(id, approve(node), `${node.name} takes part now.`);
      case "resume":
        return now(id, resume(node.id), `${node.name} takes work again.`);
      case "probe":
        return now(id, probe(node.id), `${node.name} has answered.`);
      default:
        return ask(id);
    }
  };
  const offers = offersOf(node);
  const items = offers.map((offer) => ({ ...offer, onSelect: () => run(offer.id) }));
  return { offers, items, run, pending, dialog: asked && question(asked) };

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
          verb={`Stop the worker of ${node.name}`}
          onClose={close}
          onConfirm={() => done(stopWorker(node.id), `The worker of ${node.name} is stopping.`)}
        >
          It answers what it has begun, ends its engines and then itself. The node stays here, offline, until
          its worker is started again on that machine; a service there may do so at once.
        </Confirm>
      );
    }
    return (
      <Confirm
        title={`Remove ${node.name}?`}
        verb={`Remove ${node.name}`}
        onClose={close}
        onConfirm={() => done(removeAndForget(), `${node.name} is removed.`)}
      >
        <p>{lossOf(node)}</p>
        <p>It is cut off at once. To come back it needs a new join token.</p>
      </Confirm>
    );
  }
}
