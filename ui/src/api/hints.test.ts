import { expect, test } from "vitest";
import { makeProblem } from "@/api/client";

const problem = (code: string, hint: string) => makeProblem(404, { error: { code, message: "No.", hint } });

test("hint that names a command is replaced by one for the page or left out", () => {
  expect(problem("model_not_found", "`corral models list` shows them.").hint).toBe(
    "See the Models page for the list.",
  );
  expect(problem("node_pending", "corral nodes approve shed-mini").hint).toBe(
    "Approve the node on the Nodes page.",
  );
  expect(problem("odd", "An admin makes a key with `corral keys create`.").hint).toBeNull();
});

test("other advice is shown as it is", () => {
  expect(problem("odd", "Choose a shorter name.").hint).toBe("Choose a shorter name.");
});
