import { expect, test } from "vitest";
import type { OperationOut } from "@/api/schema";
import { backendOffers, findOperation } from "@/pages/nodes/one/backendOffers";

const fake = {
  name: "fake",
  meta: "",
  alias: "",
  version: "2.0.0",
  previous_version: "1.0.0",
  is_system: false,
};

test("what is offered is what there is", () => {
  expect(backendOffers(fake, "3.0.0").map((offer) => offer.verb)).toEqual([
    "upgrade",
    "rollback",
    "reinstall",
    "delete",
  ]);
  expect(backendOffers({ ...fake, previous_version: "" }, "").map((offer) => offer.verb)).toEqual([
    "reinstall",
    "delete",
  ]);
  expect(backendOffers({ ...fake, is_system: true }, "3.0.0")).toEqual([]);
});

test("work on another node is not work here, and work on another backend neither", () => {
  const operation = (name: string, node_id: string, state = "working") =>
    ({
      id: `${name} ${node_id}`,
      name,
      isBackend: true,
      nodes: [{ node_id, state }],
    }) as unknown as OperationOut;
  const all = [operation("fake", "b"), operation("other", "a"), operation("fake", "a", "success")];
  expect(findOperation(all, "a", fake)).toBeUndefined();
  expect(findOperation([...all, operation("fake", "a")], "a", fake)?.id).toBe("fake a");
});
