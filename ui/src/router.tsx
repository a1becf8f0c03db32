// Every page and what its address may say. A page's script is fetched when it is first shown.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { accessSearch } from "@/pages/access/search";
import { backendsSearch } from "@/pages/backends/search";
import { modelSearch, modelsSearch } from "@/pages/models/search";
import { nodeSearch, nodesSearch } from "@/pages/nodes/search";
import { operationsSearch } from "@/pages/operations/search";
import { playgroundSearch } from "@/pages/playground/search";
import { settingsSearch } from "@/pages/settings/search";
import { usageSearch } from "@/pages/usage/search";
import { NotFound, PageFailed, Shell } from "@/shell/Shell";

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: PageFailed });
const at = <Path extends string>(path: Path) => ({ getParentRoute: () => root, path }) as const;

const tree = root.addChildren([
  createRoute({ ...at("/"), component: lazyRouteComponent(() => import("@/pages/overview/Overview")) }),
  createRoute({
    ...at("/nodes"),
    validateSearch: nodesSearch,
    component: lazyRouteComponent(() => import("@/pages/nodes/Nodes")),
  }),
  createRoute({
    ...at("/nodes/$node"),
    validateSearch: nodeSearch,
    component: lazyRouteComponent(() => import("@/pages/nodes/NodePage")),
  }),
  createRoute({
    ...at("/backends"),
    validateSearch: backendsSearch,
    component: lazyRouteComponent(() => import("@/pages/backends/Backends")),
  }),
  createRoute({
    ...at("/models"),
    validateSearch: modelsSearch,
    component: lazyRouteComponent(() => import("@/pages/models/Models")),
  }),
  createRoute({
    ...at("/models/$model"),
    validateSearch: modelSearch,
    component: lazyRouteComponent(() => import("@/pages/models/ModelPage")),
  }),
  createRoute({
    ...at("/operations"),
    validateSearch: operationsSearch,
    component: lazyRouteComponent(() => import("@/pages/operations/Operations")),
  }),
  createRoute({
    ...at("/playground"),
    validateSearch: playgroundSearch,
    component: lazyRouteComponent(() => import("@/pages/playground/Playground")),
  }),
  createRoute({
    ...at("/usage"),
    validateSearch: usageSearch,
    component: lazyRouteComponent(() => import("@/pages/usage/Usage")),
  }),
  createRoute({
    ...at("/access"),
    validateSearch: accessSearch,
    component: lazyRouteComponent(() => import("@/pages/access/Access")),
  }),
  createRoute({
    ...at("/settings"),
    validateSearch: settingsSearch,
    component: lazyRouteComponent(() => import("@/pages/settings/Settings")),
  }),
]);

export function makeRouter() {
  return createRouter({
    routeTree: tree,
    basepath: "/app",
    defaultPreload: "intent",
    scrollRestoration: true,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}
