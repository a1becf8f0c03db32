// The dialog of one backend on one node: its facts, its operation and its actions.
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { runOperationAction } from "@/api/operations";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { RelativeTime } from "@/kit/RelativeTime";
import {
  discardAssignment,
  makeSimpleChange,
  requestChange,
  retryAssignment,
  retryOperation,
} from "@/pages/backends/calls";
import { Facts } from "@/pages/backends/Facts";
import type { MatrixCellData } from "@/pages/backends/fleet";
import { OperationFollower } from "@/pages/backends/OperationFollower";
import { type CellOffer, listCellOffers } from "@/pages/backends/offers";
import { nodeSearch } from "@/pages/nodes/search";
import { bytes } from "@/text/format";

interface CellDialogProps {
  backend: string;
  cell: MatrixCellData;
  onClose: () => void;
}

export function CellDialog({ backend, cell, onClose }: CellDialogProps) {
  const [startedId, setStartedId] = useState("");
  const [isRemoving, setRemoving] = useState(false);
  const doing = useMutation({
    mutationFn: (offer: CellOffer) => runOffer(offer, backend, cell),
    onSuccess: (id) => setStartedId(id),
  });
  const title = `${backend} on ${cell.nodeName}`;
  if (isRemoving) {
    return (
      <ConfirmDialog
        title={`Remove ${backend} from ${cell.nodeName}?`}
        verb={`Remove from ${cell.nodeName}`}
        onConfirm={async () =>
          setStartedId(await runOffer({ id: "remove", label: "", verb: "delete" }, backend, cell))
        }
        onClose={() => setRemoving(false)}
      >
        Its processes on that node are stopped. It can be installed again at any time.
      </ConfirmDialog>
    );
  }
  const isActive = cell.state === "busy" || cell.state === "queued";
  const followedId = startedId || (isActive || cell.state === "failed" ? cell.operationId : "");
  const offered = listCellOffers(cell).filter((offer) => !followedId || !FOLLOWER_OFFERS.has(offer.id));
  return (
    <Dialog title={title} onClose={onClose}>
      <CellFacts cell={cell} />
      {cell.state === "pending" && (
        <p>
          {cell.targetVersion || "A change"} is pending: it is applied when {cell.nodeName} is reachable.
        </p>
      )}
      {cell.isDead && <p className="bad-text">{cell.error}</p>}
      {followedId && !cell.isDead && (
        <OperationFollower id={followedId} onNext={setStartedId} only={cell.nodeId} />
      )}
      {cell.state === "unfit" && <p>{cell.reason}</p>}
      {cell.isSystem && <p>Installed with the machine. Corral uses it but never changes it.</p>}
      <div className="row">
        {offered.map((offer, place) => (
          <Button
            key={offer.id}
            kind={
              offer.id === "remove"
                ? "danger"
                : place === 0 && PRIMARY_OFFERS.has(offer.id)
                  ? "primary"
                  : "plain"
            }
            disabled={doing.isPending || isActive}
            busy={doing.isPending && doing.variables?.id === offer.id}
            aria-label={`${offer.label}: ${title}`}
            onClick={() => (offer.id === "remove" ? setRemoving(true) : doing.mutate(offer))}
          >
            {offer.label}
          </Button>
        ))}
        <Link
          to="/nodes/$node"
          params={{ node: cell.nodeName }}
          search={nodeSearch({ tab: "logs" })}
          className="button plain"
          aria-label={`Logs of ${cell.nodeName}`}
        >
          Logs
        </Link>
      </div>
      <ErrorNotice error={doing.error} />
    </Dialog>
  );
}

/** The actions that are shown as primary buttons. */
const PRIMARY_OFFERS = new Set(["install", "upgrade", "repair", "retry", "revive"]);
/** The actions that the operation's own view offers. */
const FOLLOWER_OFFERS = new Set(["cancel", "retry"]);

/** Runs an action. Returns the id of the operation to follow; empty if there is none. */
async function runOffer(offer: CellOffer, backend: string, cell: MatrixCellData): Promise<string> {
  if (offer.verb) {
    const name = offer.verb === "install" ? backend : cell.build || backend;
    return (await requestChange(makeSimpleChange(offer.verb, name, [cell.nodeId], offer.version ?? ""))).id;
  }
  if (offer.id === "cancel") await runOperationAction(cell.operationId, "cancel");
  if (offer.id === "drop") await discardAssignment(cell.nodeId, cell.assignedBackend);
  if (offer.id === "retry") return (await retryOperation(cell.operationId)).id;
  if (offer.id === "revive") return (await retryAssignment(cell.nodeId, cell.assignedBackend)).id;
  return "";
}

function CellFacts({ cell }: { cell: MatrixCellData }) {
  if (!cell.build) return null;
  return (
    <Facts
      facts={[
        ["Version", cell.version],
        ["Most nodes have", cell.drifts ? cell.usual : ""],
        ["Upgrade", cell.upgrade],
        ["Build", cell.build],
        ["Installed", cell.installedAt ? <RelativeTime key="at" at={cell.installedAt} /> : ""],
        ["Previous version", cell.previous],
        ["Size", cell.size == null ? "" : bytes(cell.size)],
        ["Source", cell.uri],
        ["Digest", cell.digest],
      ]}
    />
  );
}
