// The routes: every page with its search parameters. A page's script is fetched when it is first shown.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { accessSearch } from "@/pages/access/search";
import { agentSearch, agentsSearch } from "@/pages/agents/search";
import { backendsSearch } from "@/pages/backends/search";
import { filesSearch } from "@/pages/batches/search";
import { modelSearch, modelsSearch } from "@/pages/models/search";
import { nodeSearch, nodesSearch } from "@/pages/nodes/search";
import { operationsSearch } from "@/pages/operations/search";
import { playgroundSearch } from "@/pages/playground/search";
import { runsSearch } from "@/pages/runs/search";
import { settingsSearch } from "@/pages/settings/search";
import { skillsSearch } from "@/pages/skills/search";
import { jobsSearch, tasksSearch } from "@/pages/tasks/search";
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
const runs = createRoute({
  ...at("/runs"),
  validateSearch: runsSearch,
  component: lazyRouteComponent(() => import("@/pages/runs/Runs")),
});
const run = createRoute({
  ...at("/runs/$run"),
  component: lazyRouteComponent(() => import("@/pages/runs/RunPage")),
});
const agents = createRoute({
  ...at("/agents"),
  validateSearch: agentsSearch,
  component: lazyRouteComponent(() => import("@/pages/agents/Agents")),
});
const skills = createRoute({
  ...at("/agents/skills"),
  validateSearch: skillsSearch,
  component: lazyRouteComponent(() => import("@/pages/skills/Skills")),
});
const skill = createRoute({
  ...at("/agents/skills/$skill"),
  component: lazyRouteComponent(() => import("@/pages/skills/SkillPage")),
});
const skillRepos = createRoute({
  ...at("/agents/git-repos"),
  component: lazyRouteComponent(() => import("@/pages/skills/SkillRepos")),
});
const agent = createRoute({
  ...at("/agents/$agent"),
  validateSearch: agentSearch,
  component: lazyRouteComponent(() => import("@/pages/agents/AgentPage")),
});
const collections = createRoute({
  ...at("/agents/collections"),
  component: lazyRouteComponent(() => import("@/pages/collections/Collections")),
});
const collection = createRoute({
  ...at("/agents/collections/$collection"),
  component: lazyRouteComponent(() => import("@/pages/collections/CollectionPage")),
});
const tasks = createRoute({
  ...at("/tasks"),
  validateSearch: tasksSearch,
  component: lazyRouteComponent(() => import("@/pages/tasks/Tasks")),
});
const newTask = createRoute({
  ...at("/tasks/new"),
  component: lazyRouteComponent(() => import("@/pages/tasks/TaskFormPage")),
});
const task = createRoute({
  ...at("/tasks/$task"),
  component: lazyRouteComponent(() => import("@/pages/tasks/TaskPage")),
});
const taskForm = createRoute({
  ...at("/tasks/$task/edit"),
  component: lazyRouteComponent(() => import("@/pages/tasks/TaskFormPage"), "EditTaskPage"),
});
const jobs = createRoute({
  ...at("/tasks/jobs"),
  validateSearch: jobsSearch,
  component: lazyRouteComponent(() => import("@/pages/tasks/Jobs")),
});
const job = createRoute({
  ...at("/tasks/jobs/$job"),
  component: lazyRouteComponent(() => import("@/pages/tasks/JobPage")),
});
const batches = createRoute({
  ...at("/tasks/batches"),
  component: lazyRouteComponent(() => import("@/pages/batches/Batches")),
});
const files = createRoute({
  ...at("/tasks/files"),
  validateSearch: filesSearch,
  component: lazyRouteComponent(() => import("@/pages/batches/Files")),
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
  runs,
  run,
  agents,
  ...[skills, skill, skillRepos],
  agent,
  ...[collections, collection],
  ...[tasks, newTask, task, taskForm, jobs, job, batches, files],
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
