// Lists the actions that an operation offers. Pure; the server decides whether an action is allowed.
import type { OperationAction } from "@/api/operations";
import type { OperationDetailOut, OperationOut } from "@/api/schema";
import type { IconName } from "@/kit/icons";

export interface OperationOffer {
  action: OperationAction;
  label: string;
  icon: IconName;
  /** The text of the dialog that confirms the action; without one the action runs at once. */
  question?: string;
}

type OfferingOperation = Pick<OperationOut, "state" | "cancellable"> &
  Partial<Pick<OperationDetailOut, "dismissedAt">>;

const CANCEL: OperationOffer = {
  action: "cancel",
  label: "Cancel",
  icon: "stop",
  question: "Queued nodes are skipped, workers stop, and partial downloads are deleted.",
};
const PAUSE: OperationOffer = { action: "pause", label: "Pause", icon: "pause" };
const RESUME: OperationOffer = { action: "resume", label: "Resume", icon: "play" };
const RETRY: OperationOffer = { action: "retry", label: "Retry", icon: "again" };
const DISMISS: OperationOffer = { action: "dismiss", label: "Dismiss", icon: "check" };

export function listOperationOffers(operation: OfferingOperation): OperationOffer[] {
  const cancel = operation.cancellable ? [CANCEL] : [];
  switch (operation.state) {
    case "queued":
    case "running":
    case "waiting_on_nodes":
      return operation.cancellable ? [PAUSE, CANCEL] : [];
    case "completed_with_pending":
      return cancel.map((offer) => ({ ...offer, label: "Discard pending", question: GIVE_UP }));
    case "paused":
      return [RESUME, ...cancel];
    case "failed":
      return operation.dismissedAt ? [RETRY] : [RETRY, DISMISS];
    case "cancelled":
      return [{ ...RETRY, label: "Run again" }];
    default:
      return [];
  }
}

const GIVE_UP = "Unreachable nodes will not get the change when they return. Nodes that have it keep it.";
