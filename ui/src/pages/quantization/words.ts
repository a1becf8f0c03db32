// Describes quantisations and the types of weights in words. Pure.
import type { QuantizationOut, QuantizationSizeOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { bytes, joinWords } from "@/text/format";

const TONES: Record<string, Tone> = { completed: "good", failed: "bad", stopped: "still", queued: "still" };
/** The usual choice: half the bits of q8_0, and answers that are hard to tell from it. */
export const DEFAULT_TYPE = "q4_k_m";
const WORDS: Record<string, string> = {
  q2_k: "smallest, clearly worse",
  q3_k_m: "small, noticeably worse",
  q4_k_m: "the usual choice",
  q5_k_m: "closer to the original",
  q6_k: "close to the original",
  q8_0: "hard to tell from the original",
  f16: "not quantised",
};

export const isOpen = (job: Pick<QuantizationOut, "status">): boolean =>
  !["completed", "failed", "stopped"].includes(job.status);

export function describeStatus(job: Pick<QuantizationOut, "status" | "phase">): { text: string; tone: Tone } {
  const text = isOpen(job) && job.phase === "uploading" ? "uploading" : job.status;
  return { text, tone: TONES[job.status] ?? "busy" };
}

/** `smol to q4_k_m`: names a job in labels and messages. */
export const nameJob = (job: Pick<QuantizationOut, "model" | "quantization_type">): string =>
  `${job.model} to ${job.quantization_type}`;

/** What has come out, or why nothing has. */
export function describeEnd(job: QuantizationOut): string {
  if (job.status === "failed") return job.message;
  if (!job.output_file) return isOpen(job) ? job.message : "";
  const size = bytes(job.size_bytes);
  const again = job.provenance?.is_requantized ? "; its weights had been quantised before" : "";
  if (job.import_model_name) return `${size}${again}`;
  const problem = job.import_message ? `, no model: ${job.import_message}` : "";
  return `${job.output_file}, ${size}${again}${problem}`;
}

/** One line of the choice of types: `q4_k_m, about 4.6 GiB, the usual choice`. */
export function describeType(one: Pick<QuantizationSizeOut, "quantization_type" | "size_bytes">): string {
  const size = one.size_bytes == null ? "" : `, about ${bytes(one.size_bytes)}`;
  const word = WORDS[one.quantization_type];
  return `${one.quantization_type}${size}${word ? `, ${word}` : ""}`;
}

/** Where a model of this type would fit. */
export function describeFit(one: Pick<QuantizationSizeOut, "size_bytes" | "fits_on">): string {
  if (one.size_bytes == null) return "The size is known once the files have been downloaded.";
  return one.fits_on.length > 0
    ? `Fits on ${joinWords([...one.fits_on])}.`
    : "Fits on no node with what is free now.";
}
