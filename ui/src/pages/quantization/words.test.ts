import { expect, test } from "vitest";
import type { QuantizationOut } from "@/api/schema";
import {
  describeEnd,
  describeFit,
  describeStatus,
  describeType,
  isOpen,
  nameJob,
} from "@/pages/quantization/words";

const job = (over: Partial<QuantizationOut> = {}): QuantizationOut =>
  ({
    model: "smol",
    quantization_type: "q4_k_m",
    status: "quantizing",
    phase: "quantizing",
    message: "Runs on node-1.",
    output_file: "",
    import_model_name: "",
    import_message: "",
    size_bytes: null,
    provenance: null,
    ...over,
  }) as unknown as QuantizationOut;

test("a job is open until it has ended, and uploading is a word of its own", () => {
  expect(isOpen(job())).toBe(true);
  expect(isOpen(job({ status: "stopped" }))).toBe(false);
  expect(describeStatus(job({ phase: "uploading" })).text).toBe("uploading");
  expect(describeStatus(job({ status: "completed", phase: "uploading" }))).toEqual({
    text: "completed",
    tone: "good",
  });
  expect(nameJob(job())).toBe("smol to q4_k_m");
});

test("the end says what came out, and why it is no model", () => {
  const made = { status: "completed", output_file: "smol.Q4_K_M.gguf", size_bytes: 1024 ** 2 };
  expect(describeEnd(job({ ...made, import_model_name: "small" }))).toBe("1 MiB");
  expect(describeEnd(job({ ...made, import_message: "The name is taken." }))).toContain(
    "no model: The name is taken.",
  );
  expect(describeEnd(job({ status: "failed", message: "The disk is full." }))).toBe("The disk is full.");
});

test("a type shows its size and where it fits", () => {
  const one = { quantization_type: "q4_k_m", size_bytes: 2 * 1024 ** 3, fits_on: ["a", "b"] };
  expect(describeType(one)).toBe("q4_k_m, about 2 GiB, the usual choice");
  expect(describeFit(one)).toBe("Fits on a and b.");
  expect(describeFit({ ...one, fits_on: [] })).toContain("no node");
  expect(describeFit({ ...one, size_bytes: null })).toContain("downloaded");
});
