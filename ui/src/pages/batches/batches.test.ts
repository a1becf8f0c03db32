import { expect, test } from "vitest";
import { HEAD_BYTES, INPUT_BYTES_MAX, inspectInput } from "@/pages/batches/input";
import {
  batchWord,
  canCancel,
  computeProgress,
  describeCounts,
  describeLineError,
  describePurpose,
  nameBatch,
} from "@/pages/batches/words";

const batch = (status: string, total: number, completed = 0, failed = 0) => ({
  status,
  request_counts: { total, completed, failed },
});

test("the progress of a batch counts failed requests as answered, and ends with the batch", () => {
  expect(computeProgress(batch("validating", 0))).toBeNull();
  expect(computeProgress(batch("in_progress", 200, 40, 10))).toBe(25);
  expect(computeProgress(batch("cancelling", 200, 100))).toBe(50);
  expect(computeProgress(batch("completed", 200, 200))).toBeNull();
});

test("the counts of a batch are a sentence", () => {
  expect(describeCounts(batch("validating", 0))).toBe("Waiting for a worker that checks the input");
  expect(describeCounts(batch("failed", 0))).toBe("");
  expect(describeCounts(batch("in_progress", 1, 0))).toBe("0 of 1 request answered");
  expect(describeCounts(batch("in_progress", 500, 117, 3))).toBe("117 of 500 requests answered, 3 failed");
});

test("a status is a word with a tone, and says whether the batch can be cancelled", () => {
  expect(batchWord("in_progress")).toEqual({ text: "in progress", tone: "busy" });
  expect(batchWord("expired").tone).toBe("warn");
  expect(batchWord("failed").tone).toBe("bad");
  expect(batchWord("cancelled").tone).toBe("still");
  expect(["validating", "in_progress", "finalizing", "cancelling", "completed"].map(canCancel)).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
});

test("a batch is named by its input, or by its id once the input is deleted", () => {
  const one = { id: "batch_01a1eda5a3fd783e83d608912054e399", input_file_id: "file-1" };
  expect(nameBatch(one, [{ id: "file-1", filename: "herd.jsonl" }])).toBe("herd.jsonl");
  expect(nameBatch(one, [])).toBe("Batch 2054e399");
});

test("an error names its line, if it is about one", () => {
  expect(describeLineError({ line: 3, message: "Not JSON." })).toBe("Line 3: Not JSON.");
  expect(describeLineError({ message: "The worker was lost." })).toBe("The worker was lost.");
});

test("a purpose is in words, also one of a newer server", () => {
  expect(describePurpose("batch_output")).toBe("output of a batch");
  expect(describePurpose("new_kind")).toBe("new kind");
});

test("the first line of an input gives its endpoint", () => {
  const line = JSON.stringify({ custom_id: "1", method: "POST", url: "/v1/embeddings", body: {} });
  expect(inspectInput(`${line}\n{`, 200)).toEqual({ endpoint: "/v1/embeddings", fault: null });
  expect(inspectInput(`\uFEFF${line}`, 100)).toEqual({ endpoint: "/v1/embeddings", fault: null });
  // A first line that is longer than what was read is left to the server.
  expect(inspectInput(line.slice(0, 20), HEAD_BYTES + 1)).toEqual({ endpoint: null, fault: null });
});

test.each([
  ["", 0, "The file is empty."],
  ["{}\n", INPUT_BYTES_MAX + 1, "at most 200 MiB"],
  ["id,question\n", 12, "Line 1 is not a JSON object."],
  ["[1]\n", 4, "Line 1 is not a JSON object."],
  ["{}\n", 3, "Line 1 has no url."],
  ['{"url": "/v1/images/generations"}\n', 30, "Line 1 is for /v1/images/generations."],
])("an input that no batch takes is refused before it is uploaded: %j", (head, size, fault) => {
  expect(inspectInput(head, size).fault).toContain(fault);
});
