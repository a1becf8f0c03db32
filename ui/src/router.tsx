// The routes: every page with its search parameters. A page's script is fetched when it is first shown.
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

// Each route is a constant of its own: inside the list they would lose the types of their parameters.
const overview = createRoute({
  ...at("/"),
  component: lazyRouteComponent(() => import("@/pages/overview/Overview")),
});
const nodes = createRoute({
  ...at("/nodes"),
  validateSearch: nodesSearch,
  component: lazyRouteComponent(() => import("@/pages/nodes/Nodes")),
});
const node = createRoute({
  ...at("/nodes/$node"),
  validateSearch: nodeSearch,
  component: lazyRouteComponent(() => import("@/pages/nodes/NodePage")),
});
const backends = createRoute({
  ...at("/backends"),
  validateSearch: backendsSearch,
  component: lazyRouteComponent(() => import("@/pages/backends/Backends")),
});
const models = createRoute({
  ...at("/models"),
  validateSearch: modelsSearch,
  component: lazyRouteComponent(() => import("@/pages/models/Models")),
});
const model = createRoute({
  ...at("/models/$model"),
  validateSearch: modelSearch,
  component: lazyRouteComponent(() => import("@/pages/models/ModelPage")),
});
const operations = createRoute({
  ...at("/operations"),
  validateSearch: operationsSearch,
  component: lazyRouteComponent(() => import("@/pages/operations/Operations")),
});
const playground = createRoute({
  ...at("/playground"),
  validateSearch: playgroundSearch,
  component: lazyRouteComponent(() => import("@/pages/playground/Playground")),
});
const usage = createRoute({
  ...at("/usage"),
  validateSearch: usageSearch,
  component: lazyRouteComponent(() => import("@/pages/usage/Usage")),
});
const access = createRoute({
  ...at("/access"),
  validateSearch: accessSearch,
  component: lazyRouteComponent(() => import("@/pages/access/Access")),
});
const settings = createRoute({
  ...at("/settings"),
  validateSearch: settingsSearch,
  component: lazyRouteComponent(() => import("@/pages/settings/Settings")),
});

const tree = root.addChildren([
  overview,
  nodes,
  node,
  backends,
  models,
  model,
  operations,
  playground,
  usage,
  access,
  settings,
]);

export const router = createRouter({
  routeTree: tree,
  basepath: "/app",
  defaultPreload: "intent",
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
