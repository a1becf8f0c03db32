import { expect, test } from "vitest";
import { titleOf } from "@/shell/title";

const PLACES = [
  { to: "/", label: "Overview" },
  { to: "/nodes", label: "Nodes" },
];

test("a title names the page, and what it is about first", () => {
  expect(titleOf("/app/", PLACES)).toBe("Overview · Corral");
  expect(titleOf("/nodes", PLACES)).toBe("Nodes · Corral");
  expect(titleOf("/app/nodes/gpu%20a", PLACES)).toBe("gpu a · Nodes · Corral");
});

test("an unknown or broken address has a title, too", () => {
  expect(titleOf("/app/nothing", PLACES)).toBe("No such page · Corral");
  expect(titleOf("/app/nodes/%E0%A4%A", PLACES)).toBe("%E0%A4%A · Nodes · Corral");
});
