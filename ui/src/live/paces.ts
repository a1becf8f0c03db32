// The paces of everything under way, known once for the whole tab: a card that opens shows at once what the strip knew.
import type { OperationOut, TargetOut } from "@/api/schema";
import { type Pace, Rates } from "@/live/rates";

const rates = new Rates();

export function paceOf(operation: Pick<OperationOut, "id" | "currentBytes" | "totalBytes">): Pace {
  return rates.see(operation.id, operation.currentBytes, operation.totalBytes);
}

export function paceOfTarget(operation: string, target: TargetOut): Pace {
  return rates.see(`${operation}/${target.node_id}`, target.current, target.total);
}

/** Takes a reading of all of them, and forgets what is gone. */
export function seePaces(operations: readonly OperationOut[]): void {
  const ids: string[] = [];
  for (const operation of operations) {
    ids.push(operation.id);
    paceOf(operation);
    for (const target of operation.nodes ?? []) {
      ids.push(`${operation.id}/${target.node_id}`);
      paceOfTarget(operation.id, target);
    }
  }
  rates.keep(ids);
}
