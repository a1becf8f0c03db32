import { expect, test } from "vitest";
import { makePageTitle } from "@/shell/title";

const PAGES = [
  { to: "/", label: "Overview" },
  { to: "/nodes", label: "Nodes" },
];

test("a title names the page, and what it is about first", () => {
  expect(makePageTitle("/app/", PAGES)).toBe("Overview · Corral");
  expect(makePageTitle("/nodes", PAGES)).toBe("Nodes · Corral");
  expect(makePageTitle("/app/nodes/gpu%20a", PAGES)).toBe("gpu a · Nodes · Corral");
});

test("an unknown or broken address has a title, too", () => {
  expect(makePageTitle("/app/nothing", PAGES)).toBe("Page not found · Corral");
  expect(makePageTitle("/app/nodes/%E0%A4%A", PAGES)).toBe("%E0%A4%A · Nodes · Corral");
});
