// One backend on one node: what is known of it, what is being done, and what can be.
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Ago } from "@/kit/Ago";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { Dialog } from "@/kit/Dialog";
import { Trouble } from "@/kit/Trouble";
import { ask, cancel, drop, retry, revive, simply } from "@/pages/backends/data";
import { Facts } from "@/pages/backends/Facts";
import { Follow } from "@/pages/backends/Follow";
import type { Cell } from "@/pages/backends/fleet";
import { type Offer, offers } from "@/pages/backends/offers";
import { nodeSearch } from "@/pages/nodes/search";
import { bytes } from "@/text/format";

interface CellDialogProps {
  backend: string;
  cell: Cell;
  onClose: () => void;
}

export function CellDialog({ backend, cell, onClose }: CellDialogProps) {
  const [begun, setBegun] = useState("");
  const [isRemoving, setRemoving] = useState(false);
  const doing = useMutation({
    mutationFn: (offer: Offer) => act(offer, backend, cell),
    onSuccess: (id) => setBegun(id),
  });
  const title = `${backend} on ${cell.nodeName}`;
  if (isRemoving) {
    return (
      <Confirm
        title={`Remove ${backend} from ${cell.nodeName}?`}
        verb={`Remove from ${cell.nodeName}`}
        onConfirm={async () =>
          setBegun(await act({ id: "remove", label: "", verb: "delete" }, backend, cell))
        }
        onClose={() => setRemoving(false)}
      >
        Its processes on that node are stopped. It can be installed again at any time.
      </Confirm>
    );
  }
  const isUnderWay = cell.state === "busy" || cell.state === "queued";
  const followed = begun || (isUnderWay || cell.state === "failed" ? cell.operationId : "");
  const offered = offers(cell).filter((offer) => !followed || !FOLLOW_HAS.has(offer.id));
  return (
    <Dialog title={title} onClose={onClose}>
      <CellFacts cell={cell} />
      {cell.state === "owed" && (
        <p>
          {cell.nodeName} owes {cell.wanted || "it"}: it gets it as soon as it can be reached.
        </p>
      )}
      {cell.isDead && <p className="bad-text">{cell.error}</p>}
      {followed && !cell.isDead && <Follow id={followed} onNext={setBegun} only={cell.nodeId} />}
      {cell.state === "unfit" && <p>{cell.reason}</p>}
      {cell.isSystem && <p>It came with the machine. Corral uses it and never changes it.</p>}
      <div className="row">
        {offered.map((offer, place) => (
          <Button
            key={offer.id}
            kind={offer.id === "remove" ? "danger" : place === 0 && FIRST.has(offer.id) ? "primary" : "plain"}
            disabled={doing.isPending || isUnderWay}
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
      <Trouble error={doing.error} />
    </Dialog>
  );
}

/** What is worth a strong colour. */
const FIRST = new Set(["install", "upgrade", "repair", "retry", "revive"]);
/** Offered beside the operation itself. */
const FOLLOW_HAS = new Set(["cancel", "retry"]);

/** The id of what is to be followed then; empty: nothing. */
async function act(offer: Offer, backend: string, cell: Cell): Promise<string> {
  if (offer.verb) {
    const name = offer.verb === "install" ? backend : cell.build || backend;
    return (await ask(simply(offer.verb, name, [cell.nodeId], offer.version ?? ""))).id;
  }
  if (offer.id === "cancel") await cancel(cell.operationId);
  if (offer.id === "drop") await drop(cell.nodeId, cell.owes);
  if (offer.id === "retry") return (await retry(cell.operationId)).id;
  if (offer.id === "revive") return (await revive(cell.nodeId, cell.owes)).id;
  return "";
}

function CellFacts({ cell }: { cell: Cell }) {
  if (!cell.build) return null;
  return (
    <Facts
      facts={[
        ["Version", cell.version],
        ["Most nodes have", cell.drifts ? cell.usual : ""],
        ["Upgrade", cell.upgrade],
        ["Build", cell.build],
        ["Installed", cell.installedAt ? <Ago key="at" at={cell.installedAt} /> : ""],
        ["Before that", cell.previous],
        ["Size", cell.size == null ? "" : bytes(cell.size)],
        ["Source", cell.uri],
        ["Digest", cell.digest],
      ]}
    />
  );
}
