// Describes batches and files in words. Pure.
import type { BatchErrorOut, BatchOut, OpenAiFileOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { formatCount, plural } from "@/text/format";
import { findStateWord } from "@/text/stateWords";

const OPEN = new Set(["validating", "in_progress", "finalizing", "cancelling"]);
const TONES: Record<string, Tone> = { completed: "good", failed: "bad", expired: "warn" };
const PURPOSES: Record<string, string> = {
  batch: "input of batches",
  batch_output: "output of a batch",
  assistants_output: "made by a tool",
  user_data: "data",
};

export const isOpenBatch = (status: string): boolean => OPEN.has(status);

/** A batch that is being cancelled cannot be cancelled again, and one whose answers are all there need not be. */
export const canCancel = (status: string): boolean => status === "validating" || status === "in_progress";

export function batchWord(status: string): { text: string; tone: Tone } {
  const tone = isOpenBatch(status) ? "busy" : (TONES[status] ?? "still");
  return { text: findStateWord("batch", status), tone };
}

/** How far a batch is, in percent; null while its lines are not counted, and once it has ended. */
export function computeProgress({
  status,
  request_counts,
}: Pick<BatchOut, "status" | "request_counts">): number | null {
  const { total, completed, failed } = request_counts;
  return isOpenBatch(status) && total > 0 ? (100 * (completed + failed)) / total : null;
}

/** `120 of 500 answered, 3 failed`; what is waited for while no line is counted. */
export function describeCounts({
  status,
  request_counts,
}: Pick<BatchOut, "status" | "request_counts">): string {
  const { total, completed, failed } = request_counts;
  if (total === 0) return status === "validating" ? "Waiting for a worker that checks the input" : "";
  const answered = `${formatCount(completed)} of ${plural(total, "request")} answered`;
  return failed > 0 ? `${answered}, ${formatCount(failed)} failed` : answered;
}

/** `Line 3: Not JSON.` */
export const describeLineError = ({ line, message }: Pick<BatchErrorOut, "line" | "message">): string =>
  line == null ? message : `Line ${line}: ${message}`;

/** The name of a batch: that of its input, or the end of its id once the input is deleted. */
export function nameBatch(
  batch: Pick<BatchOut, "id" | "input_file_id">,
  files: readonly Pick<OpenAiFileOut, "id" | "filename">[],
): string {
  return files.find((file) => file.id === batch.input_file_id)?.filename ?? `Batch ${batch.id.slice(-8)}`;
}

export const describePurpose = (purpose: string): string => PURPOSES[purpose] ?? purpose.replaceAll("_", " ");

/** Seconds since 1970 as the page's other times. */
export const toMoment = (seconds: number): string => new Date(seconds * 1000).toISOString();
