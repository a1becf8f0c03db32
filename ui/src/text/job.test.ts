import { expect, test } from "vitest";
import { describeJob, describeJobTime, describeWebhooks, isOpenJob, jobWord } from "@/text/job";

test("a job is open until it has ended", () => {
  expect(["pending", "running", "completed", "failed", "cancelled"].filter(isOpenJob)).toEqual([
    "pending",
    "running",
  ]);
  expect(jobWord("failed")).toEqual({ text: "failed", tone: "bad" });
  expect(jobWord("pending")).toEqual({ text: "queued", tone: "still" });
  expect(jobWord("of_the_future")).toEqual({ text: "of the future", tone: "still" });
});

test("a row shows the result, the error or the message of a job", () => {
  const job = {
    status: "completed",
    error: "",
    result: "## A coat\nand:\n\n- **boots**.\n\n| a |\n|---|",
    message: "Completed.",
  } as const;
  expect(describeJob(job)).toBe("A coat and: boots. a");
  expect(describeJob({ ...job, status: "failed", error: "No model.", result: "" })).toBe("No model.");
  expect(describeJob({ ...job, status: "pending", result: "" })).toBe("Completed.");
});

test("a duration needs a beginning", () => {
  expect(describeJobTime({ started_at: null, completed_at: null })).toBeNull();
  const job = { started_at: "2026-11-18T10:00:00Z", completed_at: "2026-11-18T10:01:30Z" };
  expect(describeJobTime(job)).toBe("1 min 30 s");
});

test("webhooks are summed up by the worst of them", () => {
  const states = (...all: string[]) => describeWebhooks(all.map((state) => ({ state })));
  expect(states()).toBeNull();
  expect(states("delivered")).toBe("webhook delivered");
  expect(states("delivered", "pending")).toBe("webhook pending");
  expect(states("delivered", "failed")).toBe("webhook failed");
  expect(states("failed", "failed")).toBe("2 webhooks failed");
});
