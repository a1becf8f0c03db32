import { expect, test } from "vitest";
import type { FineTuneOut } from "@/api/schema";
import {
  describeEnd,
  describeStatus,
  describeSteps,
  isBusy,
  isOpen,
  layOutCurve,
  nameJob,
} from "@/pages/fine-tuning/words";

const job = (over: Partial<FineTuneOut> = {}): FineTuneOut =>
  ({
    model: "tiny",
    dataset_source: "colors.jsonl",
    status: "training",
    message: "Runs on node-1.",
    is_stopping: false,
    current_step: 7,
    total_steps: 20,
    loss: 2.5,
    export_status: "",
    export_message: "",
    ...over,
  }) as unknown as FineTuneOut;

test("a job is open until it has ended, and busy while it is exported", () => {
  expect(isOpen(job())).toBe(true);
  expect(isBusy(job({ status: "completed" }))).toBe(false);
  expect(isBusy(job({ status: "completed", export_status: "exporting" }))).toBe(true);
  expect(describeStatus(job({ status: "loading_model" })).text).toBe("loading model");
  expect(describeStatus(job({ is_stopping: true })).text).toBe("stopping");
  expect(nameJob(job())).toBe("tiny on colors.jsonl");
});

test("steps and ends have words", () => {
  expect(describeSteps(job())).toBe("Step 7 of 20, loss 2.500");
  expect(describeSteps(job({ total_steps: 0 }))).toBe("");
  expect(describeEnd(job({ status: "failed", message: "The disk is full." }))).toBe("The disk is full.");
  const failed = { status: "completed", export_status: "failed", export_message: "The name is taken." };
  expect(describeEnd(job(failed))).toBe("The name is taken.");
});

test("a curve fills its box, and a step trained twice counts once", () => {
  const points = [
    { step: 1, loss: 5 },
    { step: 2, loss: 4 },
    { step: 2, loss: 3 },
    { step: 3, loss: 1 },
    { step: 3, eval_loss: 2 },
  ];
  const laidOut = layOutCurve(points as never, 100, 40);
  expect(laidOut?.loss).toBe("0.0,0.0 50.0,20.0 100.0,40.0");
  expect(laidOut?.evaluation).toBe("100.0,30.0");
  expect(laidOut?.label).toBe("Loss from 5.000 to 1.000");
  expect(layOutCurve([{ step: 1, loss: 5 }] as never, 100, 40)).toBe(null);
});
