// Describes jobs and their webhooks in words, in the same way for lists and pages.
import type { JobOut, JobWebhookOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { describeRunTime } from "@/text/run";
import { findStateWord } from "@/text/stateWords";

const TONES: Record<string, Tone> = { running: "busy", completed: "good", failed: "bad" };

export const isOpenJob = (status: string): boolean => status === "pending" || status === "running";

export function jobWord(status: string): { text: string; tone: Tone } {
  return { text: findStateWord("task_run", status), tone: TONES[status] ?? "still" };
}

/** How long a job has worked, up to its end or now; null if it has not begun. */
export function describeJobTime(
  job: Pick<JobOut, "started_at" | "completed_at">,
  now?: number,
): string | null {
  return describeRunTime({ started_at: job.started_at, finished_at: job.completed_at }, now);
}

/** What a row says beside the name: the error of a failed job, the beginning of a result, or the message. */
export function describeJob(job: Pick<JobOut, "status" | "error" | "result" | "message">): string {
  if (job.status === "completed" && job.result) return stripMarks(job.result);
  return job.error || job.message;
}

/** A text without the marks of Markdown, in one line. */
function stripMarks(text: string): string {
  return text
    .replaceAll(/[*`]+/g, "")
    .replaceAll(/[#|]+|-{3,}|^\s*[->]\s/gm, " ")
    .replaceAll(/\s+/g, " ")
    .trim();
}

/** A webhook waits for the end of its job, or for its next try. */
export function webhookWord(webhook: Pick<JobWebhookOut, "state">): { text: string; tone: Tone } {
  const tones: Record<string, Tone> = { delivered: "good", failed: "bad" };
  return { text: findStateWord("webhook", webhook.state), tone: tones[webhook.state] ?? "still" };
}

/** The state of all webhooks of a job in a few words; null if it has none. */
export function describeWebhooks(webhooks: readonly Pick<JobWebhookOut, "state">[]): string | null {
  if (webhooks.length === 0) return null;
  const failed = webhooks.filter((one) => one.state === "failed").length;
  const delivered = webhooks.filter((one) => one.state === "delivered").length;
  if (failed > 0) return failed === 1 ? "webhook failed" : `${failed} webhooks failed`;
  if (delivered < webhooks.length) return "webhook pending";
  return delivered === 1 ? "webhook delivered" : "webhooks delivered";
}
