// The transfer rates of all active operations, shared by the whole tab: a card that opens shows at once the rate that
// the strip has measured.
import type { OperationOut, TargetOut } from "@/api/schema";
import { type TransferRate, TransferRateMeter } from "@/live/transferRates";

const rates = new TransferRateMeter();

export function readOperationRate(
  operation: Pick<OperationOut, "id" | "currentBytes" | "totalBytes">,
): TransferRate {
  return rates.addReading(operation.id, operation.currentBytes, operation.totalBytes);
}

export function readTargetRate(operation: string, target: TargetOut): TransferRate {
  return rates.addReading(`${operation}/${target.node_id}`, target.current, target.total);
}

/** Records a reading of every operation and target, and forgets those that are not in the list. */
export function recordRates(operations: readonly OperationOut[]): void {
  const ids: string[] = [];
  for (const operation of operations) {
    ids.push(operation.id);
    readOperationRate(operation);
    for (const target of operation.nodes ?? []) {
      ids.push(`${operation.id}/${target.node_id}`);
      readTargetRate(operation.id, target);
    }
  }
  rates.keepOnly(ids);
}
