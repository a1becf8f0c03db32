import { expect, test } from "vitest";
import { buildMatrix, type MatrixCellData } from "@/pages/backends/fleet";
import { listCellOffers, pickCommonVersion } from "@/pages/backends/offers";
import { backend, fleet, installation, node } from "@/pages/backends/sample";

function cell(more: Partial<MatrixCellData>): MatrixCellData {
  const given = buildMatrix(
    fleet({ nodes: [node("a")], installed: [backend("fake", [installation("a", "1.0")])] }),
  );
  const found = given.rows[0]?.cells[0];
  if (!found) throw new Error("There is no cell.");
  return { ...found, ...more };
}
const ids = (more: Partial<MatrixCellData>) => listCellOffers(cell(more)).map((offer) => offer.id);

test("what is missing can be installed, and what does not fit cannot", () => {
  expect(ids({ state: "missing", build: "" })).toEqual(["install"]);
  expect(ids({ state: "unfit", build: "" })).toEqual([]);
});

test("drift is offered to be repaired first, with the version of the others", () => {
  const found = listCellOffers(cell({ drifts: true, usual: "1.1", upgrade: "2.0" }));
  expect(found[0]).toMatchObject({ id: "repair", verb: "upgrade", version: "1.1" });
  expect(found.map((offer) => offer.id)).toEqual(["repair", "upgrade", "reinstall", "remove"]);
  expect(ids({ drifts: true, usual: "2.0", upgrade: "2.0" })).toEqual(["repair", "reinstall", "remove"]);
});

test("going back needs something that was kept", () => {
  expect(ids({ previous: "0.9" })).toContain("rollback");
  expect(ids({})).not.toContain("rollback");
});

test("while something is done there, it can only be cancelled; a removal not even that", () => {
  expect(ids({ state: "busy", kind: "backend_install" })).toEqual(["cancel"]);
  expect(ids({ state: "busy", kind: "backend_delete" })).toEqual([]);
});

test("a failure can be retried, and a pending change retried or discarded", () => {
  expect(ids({ state: "failed", build: "" })).toEqual(["retry"]);
  expect(ids({ state: "failed", isDead: true, build: "" })).toEqual(["revive", "drop"]);
  expect(ids({ state: "pending", build: "" })).toEqual(["drop"]);
});

test("what came with a machine is left alone", () => {
  expect(ids({ isSystem: true })).toEqual([]);
});

test("nodes come together on the newest there is, else on what most have", () => {
  const cells = ["1.1", "1.1", "1.0"].map((version) => cell({ version }));
  expect(pickCommonVersion(cells, "2.0")).toBe("2.0");
  expect(pickCommonVersion(cells, "")).toBe("1.1");
});
