import { expect, test } from "vitest";
import { problemOf } from "@/api/client";

const problem = (code: string, hint: string) => problemOf(404, { error: { code, message: "No.", hint } });

test("advice for the command line is said in words of the page, or left out", () => {
  expect(problem("model_not_found", "`corral models list` shows them.").hint).toBe(
    "The page of models shows all of them.",
  );
  expect(problem("node_pending", "corral nodes approve shed-mini").hint).toBe(
    "Approve it on the page of nodes.",
  );
  expect(problem("odd", "An admin makes a key with `corral keys create`.").hint).toBeNull();
});

test("other advice is shown as it is", () => {
  expect(problem("odd", "Choose a shorter name.").hint).toBe("Choose a shorter name.");
});
