// The actions of a node as items of a menu. An action that cannot be undone is confirmed first.
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { asProblem } from "@/api/client";
import type { NodeOut } from "@/api/schema";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import type { MenuItem } from "@/kit/Menu";
import { useToast } from "@/kit/toasts";
import { forgetNode, isQueryAllowed } from "@/live/removedNodes";
import { approveNode, drainNode, probeNode, removeNode, resumeNode, stopWorker } from "@/pages/nodes/calls";
import { isAgent } from "@/pages/nodes/fleetSummary";
import { listNodeOffers, type NodeOffer, type OfferId } from "@/pages/nodes/offers";
import { describeLoss } from "@/pages/nodes/words";

type ConfirmedAction = "drain" | "remove" | "stop";

interface NodeActions {
  offers: NodeOffer[];
  items: MenuItem[];
  run: (id: OfferId) => void;
  /** The action whose request has no response yet. */
  pending: OfferId | null;
  /** The open confirmation dialog, for the caller to render. */
  dialog: ReactNode;
}

export function useNodeActions(node: NodeOut, onRemoved?: () => void): NodeActions {
  const queries = useQueryClient();
  const toast = useToast();
  const [confirmed, setConfirmed] = useState<ConfirmedAction | null>(null);
  const [pending, setPending] = useState<OfferId | null>(null);

  const done = async (work: Promise<unknown>, doneMessage: string) => {
    await work;
    toast(doneMessage);
    await queries.invalidateQueries({ queryKey: ["nodes"], predicate: isQueryAllowed });
  };
  const removeAndForget = async () => {
    await removeNode(node.id);
    onRemoved?.();
    forgetNode(queries, node.id);
  };
  const now = (id: OfferId, work: Promise<unknown>, doneMessage: string) => {
    setPending(id);
    void done(work, doneMessage)
      .catch((error: unknown) => toast(asProblem(error).message, "bad"))
      .finally(() => setPending(null));
  };
  const run = (id: OfferId) => {
    switch (id) {
      case "approve":
        return now(id, approveNode(node), `Approved ${node.name}.`);
      case "resume":
        return now(id, resumeNode(node.id), `Resumed ${node.name}.`);
      case "probe":
        return now(id, probeNode(node.id), `${node.name} responded.`);
      default:
        return setConfirmed(id);
    }
  };
  const offers = listNodeOffers(node);
  const items = offers.map((offer) => ({ ...offer, onSelect: () => run(offer.id) }));
  return { offers, items, run, pending, dialog: confirmed && renderDialog(confirmed) };

  function renderDialog(which: ConfirmedAction): ReactNode {
    const close = () => setConfirmed(null);
    if (which === "drain") {
      return (
        <ConfirmDialog
          title={`Drain ${node.name}?`}
          verb={`Drain ${node.name}`}
          danger={false}
          onClose={close}
          onConfirm={() => done(drainNode(node.id), `Draining ${node.name}.`)}
        >
          The node finishes its running work and gets no new work until it is resumed, even after its worker
          restarts.{!isAgent(node) && " Operations stop waiting for its pending changes."}
        </ConfirmDialog>
      );
    }
    if (which === "stop") {
      return (
        <ConfirmDialog
          title={`Stop the worker of ${node.name}?`}
          verb={`Stop the worker of ${node.name}`}
          onClose={close}
          onConfirm={() => done(stopWorker(node.id), `The worker of ${node.name} is stopping.`)}
        >
          {isAgent(node)
            ? "The worker ends its runs and exits; they begin again on another node, or are lost."
            : "The worker finishes its requests, stops its engines and exits."}{" "}
          The node stays listed as offline until the worker is started again on that machine; a system service
          may do that at once.
        </ConfirmDialog>
      );
    }
    return (
      <ConfirmDialog
        title={`Remove ${node.name}?`}
        verb={`Remove ${node.name}`}
        onClose={close}
        onConfirm={() => done(removeAndForget(), `Removed ${node.name}.`)}
      >
        <p>{describeLoss(node)}</p>
        <p>The node is disconnected at once. To rejoin it needs a new join token.</p>
      </ConfirmDialog>
    );
  }
}
