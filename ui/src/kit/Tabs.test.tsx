import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  RouterProvider,
} from "@tanstack/react-router";
import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { Tabs } from "@/kit/Tabs";

const TABS = { overview: "Overview", logs: "Logs", files: "Files" } as const;

function TabsPage() {
  const { tab = "overview" } = route.useSearch();
  return (
    <Tabs label="About it" tabs={TABS} shown={tab}>
      shows {tab}
    </Tabs>
  );
}

const root = createRootRoute();
const route = createRoute({
  getParentRoute: () => root,
  path: "/things/$thing",
  validateSearch: (search: { tab?: keyof typeof TABS; log?: string }) => search,
  component: TabsPage,
});

test("the address says which is shown, keys move among them, and a screen reader hears their names", async () => {
  const history = createMemoryHistory({ initialEntries: ["/things/a?log=x"] });
  const router = createRouter({ routeTree: root.addChildren([route]), history });
  render(<RouterProvider router={router as never} />);
  const overview = await screen.findByRole("tab", { name: "Overview", selected: true });
  expect(screen.getByRole("tablist", { name: "About it" })).toBeTruthy();
  expect(screen.getByRole("tabpanel", { name: "Overview" }).textContent).toBe("shows overview");
  expect(screen.getAllByRole("tab").map((tab) => tab.tabIndex)).toEqual([0, -1, -1]);

  overview.focus();
  fireEvent.keyDown(overview, { key: "ArrowLeft" });
  const files = screen.getByRole("tab", { name: "Files" });
  expect(document.activeElement).toBe(files);
  expect(overview.getAttribute("aria-selected")).toBe("true");
  fireEvent.keyDown(files, { key: " " });
  await screen.findByRole("tab", { name: "Files", selected: true });
  expect(router.state.location.href).toBe("/things/a?tab=files");
  expect(screen.getByRole("tabpanel", { name: "Files" }).textContent).toBe("shows files");
  // The first tab has no parameter in its address, and is not the current one for that.
  expect(document.querySelectorAll('[aria-current="page"]')).toHaveLength(1);
  expect(files.getAttribute("aria-current")).toBe("page");

  fireEvent.click(overview);
  await screen.findByRole("tab", { name: "Overview", selected: true });
  expect(router.state.location.href).toBe("/things/a");
});
