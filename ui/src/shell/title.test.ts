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

test("an id is no title: the name that the page gives stands in its place", () => {
  const path = "/app/nodes/0199eda5-a3fd-783e-83d6-08912054e399";
  expect(makePageTitle(path, PAGES)).toBe("Nodes · Corral");
  expect(makePageTitle(path, PAGES, "helper")).toBe("helper · Nodes · Corral");
  expect(makePageTitle("/app/nodes", PAGES, "helper")).toBe("Nodes · Corral");
});
