// Groups of the states of an operation. A file of its own without imports: the shared worker loads it too.

const ACTIVE = new Set(["queued", "running", "waiting_on_nodes"]);
const SETTLED = new Set(["completed", "failed", "cancelled", "superseded"]);

/** Whether an operation is queued or runs. */
export const isActive = (state: string): boolean => ACTIVE.has(state);
/** Whether an operation has its final outcome on every node: a change that is pending on an absent node is not settled. */
export const isSettled = (state: string): boolean => SETTLED.has(state);
/** Whether an operation is settled, or has changes pending on absent nodes only: there is nothing left to follow. */
export const isFinished = (state: string): boolean => isSettled(state) || state === "completed_with_pending";
