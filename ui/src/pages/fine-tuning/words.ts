// Describes fine-tunings in words, and lays out their curves. Pure.
import type { FineTuneOut, FineTunePointOut } from "@/api/schema";
import type { Tone } from "@/kit/status";

const TONES: Record<string, Tone> = { completed: "good", failed: "bad", stopped: "still", queued: "still" };

export const METHODS: Record<string, string> = {
  sft: "Examples of answers",
  dpo: "Pairs of a better and a worse answer",
  kto: "Answers that are good or bad",
  grpo: "Rewards for the model's own answers",
  reward: "Pairs, for a model that judges",
};
export const FORMATS: Record<string, string> = {
  lora: "Adapter (LoRA)",
  merged_16bit: "Whole model, 16 bits",
  gguf: "Whole model, quantised (GGUF)",
};

export const isOpen = (job: Pick<FineTuneOut, "status">): boolean =>
  !["completed", "failed", "stopped"].includes(job.status);

/** Whether anything about the job still changes. */
export const isBusy = (job: Pick<FineTuneOut, "status" | "export_status">): boolean =>
  isOpen(job) || job.export_status === "exporting";

export function describeStatus(job: Pick<FineTuneOut, "status" | "is_stopping">): {
  text: string;
  tone: Tone;
} {
  const text = job.is_stopping ? "stopping" : job.status.replace("_", " ");
  return { text, tone: TONES[job.status] ?? "busy" };
}

/** `tiny on colors.jsonl`: names a job in labels and messages. */
export const nameJob = (job: Pick<FineTuneOut, "model" | "dataset_source">): string =>
  `${job.model} on ${job.dataset_source}`;

export function describeSteps(job: Pick<FineTuneOut, "current_step" | "total_steps" | "loss">): string {
  if (!job.total_steps) return "";
  const loss = job.loss == null ? "" : `, loss ${job.loss.toFixed(3)}`;
  return `Step ${job.current_step} of ${job.total_steps}${loss}`;
}

/** What has come out, or why nothing has. */
export function describeEnd(job: FineTuneOut): string {
  if (job.export_status === "failed") return job.export_message ?? "";
  if (job.export_status === "exporting") return "The export is going on.";
  return job.status === "failed" || isOpen(job) ? job.message : "";
}

export interface CurveLayout {
  /** The points of a polyline, in the box of `width` and `height`. */
  loss: string;
  evaluation: string;
  label: string;
}

/** Lays a curve out in a box; null for one with fewer than two values. Of a step trained twice the later one counts. */
export function layOutCurve(
  points: readonly FineTunePointOut[],
  width: number,
  height: number,
): CurveLayout | null {
  const losses = collect(points, "loss");
  const evaluations = collect(points, "eval_loss");
  const all = [...losses, ...evaluations];
  if (losses.length < 2) return null;
  const values = all.map(([, value]) => value);
  const low = Math.min(...values);
  const span = Math.max(...values) - low || 1;
  const first = Math.min(...all.map(([step]) => step));
  const steps = Math.max(...all.map(([step]) => step)) - first || 1;
  const draw = (line: readonly (readonly [number, number])[]) =>
    line
      .map(([step, value]) => {
        const x = ((step - first) / steps) * width;
        const y = height - ((value - low) / span) * height;
        return `${x.toFixed(1)},${y.toFixed(1)}`;
      })
      .join(" ");
  const from = losses[0]?.[1] ?? 0;
  const to = losses.at(-1)?.[1] ?? 0;
  return {
    loss: draw(losses),
    evaluation: draw(evaluations),
    label: `Loss from ${from.toFixed(3)} to ${to.toFixed(3)}`,
  };
}

function collect(points: readonly FineTunePointOut[], name: "loss" | "eval_loss"): [number, number][] {
  const found = new Map<number, number>();
  for (const point of points) {
    const value = point[name];
    if (value != null) found.set(point.step, value);
  }
  return [...found].sort(([a], [b]) => a - b);
}
