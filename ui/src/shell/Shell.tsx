// The frame around every page: navigation, the strip of operations, degradations and the state of the connection.
import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useMatchRoute, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { api, unwrapResponse } from "@/api/client";
import { Button, IconButton } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Icon, type IconName } from "@/kit/icons";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { type ConnectionState, useConnection } from "@/live/connection";
import { useDegradations } from "@/live/degradations";
import { LiveUpdates } from "@/live/LiveUpdates";
import { Logo } from "@/shell/Logo";
import { hasScope, type Scope, useHasScope, useMe } from "@/shell/me";
import { OperationBadge, OperationStrip } from "@/shell/OperationStrip";
import { useShownName } from "@/shell/pageName";
import { applyTheme, readTheme, THEMES } from "@/shell/theme";
import { makePageTitle } from "@/shell/title";
import { timeOfDay } from "@/text/format";

interface PageEntry {
  to:
    | "/"
    | "/nodes"
    | "/backends"
    | "/models"
    | "/operations"
    | "/runs"
    | "/tasks"
    | "/playground"
    | "/agents"
    | "/usage"
    | "/access"
    | "/settings";
  label: string;
  icon: IconName;
  needs: Scope;
  /** A scope, and the label for callers without it, who see a part of the page. */
  otherLabel?: readonly [Scope, string];
  /** A scope whose callers reach the page from another one, and need no entry. */
  hiddenFor?: Scope;
  /** Another page that belongs to this entry. */
  covers?: "/runs";
}

const PAGES: PageEntry[] = [
  { to: "/", label: "Overview", icon: "overview", needs: "operate" },
  { to: "/playground", label: "Playground", icon: "playground", needs: "infer" },
  { to: "/agents", label: "Agents", icon: "agents", needs: "infer" },
  { to: "/tasks", label: "Tasks and batches", icon: "tasks", needs: "infer" },
  { to: "/models", label: "Models", icon: "models", needs: "operate" },
  { to: "/nodes", label: "Nodes", icon: "nodes", needs: "operate" },
  { to: "/backends", label: "Backends", icon: "backends", needs: "operate" },
  { to: "/operations", label: "Operations", icon: "operations", needs: "operate", covers: "/runs" },
  { to: "/runs", label: "Runs", icon: "operations", needs: "infer", hiddenFor: "operate" },
  { to: "/usage", label: "Usage", icon: "usage", needs: "infer" },
  { to: "/access", label: "Keys and users", icon: "key", needs: "infer", otherLabel: ["admin", "Secrets"] },
  { to: "/settings", label: "Settings", icon: "settings", needs: "admin" },
];

export function Shell() {
  const operates = useHasScope("operate");
  const main = useFocusOnNavigation();
  useTitle();
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to content
      </a>
      <Navigation />
      <div className="content">
        {operates && <LiveUpdates />}
        {operates && <OperationStrip />}
        {operates && <Degraded />}
        <main id="main" ref={main} tabIndex={-1}>
          <Outlet />
        </main>
      </div>
    </div>
  );
}

/** After a change of page, the keyboard and screen readers begin at its top. */
function useFocusOnNavigation() {
  const main = useRef<HTMLElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current === path) return;
    shown.current = path;
    main.current?.focus({ preventScroll: true });
  }, [path]);
  return main;
}

/** Sets the title of the document, by which tabs, history and bookmarks are distinguished. */
function useTitle() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const name = useShownName();
  const { scope } = useMe();
  useEffect(() => {
    const pages = PAGES.map((page) => ({ to: page.to, label: labelFor(page, scope) }));
    document.title = makePageTitle(path, pages, name);
  }, [path, name, scope]);
}

function Navigation() {
  const scope = useMe().scope;
  const matches = useMatchRoute();
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  const pages = PAGES.filter(
    ({ needs, hiddenFor }) => hasScope(scope, needs) && !(hiddenFor && hasScope(scope, hiddenFor)),
  );
  return (
    <header className={isOpen ? "rail open" : "rail"}>
      <div className="brand">
        <Logo />
        <span>Corral</span>
        <IconButton icon="menu" label="Menu" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} />
      </div>
      <nav aria-label="Pages">
        <ul className="plain">
          {pages.map((page) => (
            <li key={page.to}>
              <Link
                to={page.to}
                activeOptions={{ exact: page.to === "/", includeSearch: false }}
                aria-current={page.covers && matches({ to: page.covers, fuzzy: true }) ? "page" : undefined}
                onClick={close}
              >
                <Icon name={page.icon} />
                <span>{labelFor(page, scope)}</span>
                {page.to === "/operations" && <OperationBadge />}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <NavigationFooter />
    </header>
  );
}

function labelFor({ label, otherLabel }: PageEntry, scope: string): string {
  return otherLabel && !hasScope(scope, otherLabel[0]) ? otherLabel[1] : label;
}

function NavigationFooter() {
  const me = useMe();
  const queries = useQueryClient();
  const operates = useHasScope("operate");
  const [chosen, choose] = useState(readTheme());
  const signOut = async () => {
    await unwrapResponse(api.DELETE("/api/session")).catch(() => null);
    queries.clear();
    window.location.assign("/app/");
  };
  return (
    <div className="foot">
      {operates && <ConnectionLine />}
      <div className="row apart">
        <span className="cut" title={`${me.name}, ${me.scope}`}>
          {me.name}
        </span>
        <span className="row tight">
          <IconButton
            icon={chosen === "dark" ? "moon" : "sun"}
            label={`Theme: ${chosen}. Change theme`}
            onClick={() => {
              const next = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length] ?? "system";
              applyTheme(next);
              choose(next);
            }}
          />
          <IconButton icon="door" label="Sign out" onClick={() => void signOut()} />
        </span>
      </div>
    </div>
  );
}

function connectionWord({ connection, since }: ConnectionState): string {
  switch (connection) {
    case "connecting":
      return "Connecting";
    case "open":
      return "Live";
    case "silent":
      return since === undefined ? "No updates" : `No updates since ${timeOfDay(since)}`;
    case "lost":
      return "Connection lost, reconnecting";
  }
}

function ConnectionLine() {
  const state = useConnection();
  return (
    <div className={`connection ${state.connection}`} role="status">
      <span className="dot" aria-hidden="true" />
      {connectionWord(state)}
    </div>
  );
}

function connectionTrouble({ connection, since }: ConnectionState): string | null {
  const last = since === undefined ? "" : ` since ${timeOfDay(since)}`;
  if (connection === "silent") return `No updates from the server${last}. This page may be out of date.`;
  if (connection === "lost") return "Connection to the server lost. This page may be out of date.";
  return null;
}

function Degraded() {
  const trouble = connectionTrouble(useConnection());
  // The overview page lists degradations among the items that need attention.
  const isOverview = useMatchRoute()({ to: "/" }) !== false;
  const known = useDegradations();
  const sentences = isOverview ? [] : known;
  if (!trouble && sentences.length === 0) return null;
  return (
    <div className="degraded" role="status">
      <Icon name="warn" />
      <ul className="plain">
        {trouble && <li>{trouble}</li>}
        {sentences.map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
    </div>
  );
}

export function NotFound() {
  return (
    <>
      <PageHeader title="Page not found" />
      <EmptyState title="No page exists at this address.">
        <Link to="/">Back to the overview</Link>
      </EmptyState>
    </>
  );
}

/** Shown if a page's script failed or could not be fetched: after an upgrade the script has another name. */
export function PageFailed({ error, reset }: { error: unknown; reset: () => void }) {
  return (
    <div className="stack">
      <PageHeader title="This page failed to load" />
      <ErrorNotice error={error} onRetry={reset} />
      <div>
        <Button onClick={() => window.location.reload()}>Reload</Button>
      </div>
    </div>
  );
}
