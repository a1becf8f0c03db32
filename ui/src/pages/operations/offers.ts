// What can be done about an operation. Pure; the server has the last word.
import type { Act } from "@/api/operations";
import type { OperationInFull, OperationOut } from "@/api/schema";
import type { IconName } from "@/kit/icons";

export interface Offer {
  act: Act;
  label: string;
  icon: IconName;
  /** What is asked before it is done; nothing: it is done at once. */
  asks?: string;
}

type Offered = Pick<OperationOut, "state" | "cancellable"> & Partial<Pick<OperationInFull, "dismissedAt">>;

const CANCEL: Offer = {
  act: "cancel",
  label: "Cancel",
  icon: "stop",
  asks: "What was not begun never is, workers stop, and what was fetched is thrown away.",
};
const PAUSE: Offer = { act: "pause", label: "Pause", icon: "pause" };
const RESUME: Offer = { act: "resume", label: "Resume", icon: "play" };
const RETRY: Offer = { act: "retry", label: "Retry", icon: "again" };
const DISMISS: Offer = { act: "dismiss", label: "Dismiss", icon: "check" };

export function offers(operation: Offered): Offer[] {
  const cancel = operation.cancellable ? [CANCEL] : [];
  switch (operation.state) {
    case "queued":
    case "running":
    case "waiting_on_nodes":
      return operation.cancellable ? [PAUSE, CANCEL] : [];
    case "completed_with_pending":
      return cancel.map((offer) => ({ ...offer, label: "Give up", asks: GIVE_UP }));
    case "paused":
      return [RESUME, ...cancel];
    case "failed":
      return operation.dismissedAt ? [RETRY] : [RETRY, DISMISS];
    case "cancelled":
      return [{ ...RETRY, label: "Do it again" }];
    default:
      return [];
  }
}

const GIVE_UP = "The nodes that are away will not get it when they are back. Where it is done, it stays.";
