import { expect, test } from "vitest";
import type { OperationOut } from "@/api/schema";
import { backendOffers, operationOf } from "@/pages/nodes/one/backends";

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
  const asked = (name: string, node_id: string, state = "working") =>
    ({
      id: `${name} ${node_id}`,
      name,
      isBackend: true,
      nodes: [{ node_id, state }],
    }) as unknown as OperationOut;
  const all = [asked("fake", "b"), asked("other", "a"), asked("fake", "a", "success")];
  expect(operationOf(all, "a", fake)).toBeUndefined();
  expect(operationOf([...all, asked("fake", "a")], "a", fake)?.id).toBe("fake a");
});
