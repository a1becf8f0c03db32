import { expect, test } from "vitest";
import {
  appendLines,
  downloadAddress,
  filterLines,
  findSeverity,
  isAtEnd,
  LINES_KEPT_MAX,
  type LogLine,
} from "@/pages/nodes/one/logLines";

const line = (number: number, stream = "stdout", text = `line ${number}`): LogLine => ({
  number,
  at: "t",
  stream,
  text,
});
const many = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, place) => line(from + place));

test("a line that comes again is shown once", () => {
  const before = many(1, 4);
  expect(appendLines(before, many(2, 6)).map((one) => one.number)).toEqual([1, 2, 3, 4, 5]);
  expect(appendLines(before, many(1, 4))).toBe(before);
});

test("the oldest lines make room", () => {
  const lines = appendLines(many(0, LINES_KEPT_MAX), [line(LINES_KEPT_MAX)]);
  expect(lines).toHaveLength(LINES_KEPT_MAX);
  expect(lines[0]?.number).toBe(1);
});

test("one stream, or a word, is shown alone", () => {
  const lines = [line(1), line(2, "stderr", "Trouble")];
  expect(filterLines(lines, "stderr", "").map((one) => one.number)).toEqual([2]);
  expect(filterLines(lines, "all", "trouble").map((one) => one.number)).toEqual([2]);
  expect(filterLines(lines, "all", "")).toBe(lines);
});

test("who has scrolled up stays there", () => {
  expect(isAtEnd({ scrollTop: 900, scrollHeight: 1000, clientHeight: 100 })).toBe(true);
  expect(isAtEnd({ scrollTop: 500, scrollHeight: 1000, clientHeight: 100 })).toBe(false);
});

test("a log is downloaded from the address of its process", () => {
  expect(downloadAddress("gpu-a", "org/model#0")).toBe(
    "/api/nodes/gpu-a/backend-logs/org%2Fmodel%230/download",
  );
});

test("a line is as serious as what it says, whatever stream it came on", () => {
  expect(findSeverity("llama_model_loader: loaded meta data with 30 key-value pairs")).toBe("plain");
  expect(findSeverity("main: server is listening on http://127.0.0.1:8000")).toBe("plain");
  expect(findSeverity("ggml_backend_cuda: 0 errors, 0 warnings")).toBe("plain");
  expect(findSeverity("llama_init: failed to allocate buffer")).toBe("error");
  expect(findSeverity("Traceback (most recent call last):")).toBe("error");
  expect(findSeverity("ValueError: bad shape")).toBe("error");
  expect(findSeverity("0.01.123 W load: control token is not marked as EOG")).toBe("warning");
  expect(findSeverity("0.01.123 E load: no such file")).toBe("error");
  expect(findSeverity("E")).toBe("plain");
  expect(findSeverity("WARNING: n_ctx is larger than the model was made for")).toBe("warning");
});
