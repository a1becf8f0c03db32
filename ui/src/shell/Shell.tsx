// The frame around every page: navigation, the strip of operations, what is degraded, and whether we hear of changes.
import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useMatchRoute, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { answer, api } from "@/api/client";
import { Button, IconButton } from "@/kit/Button";
import { Icon, type IconName } from "@/kit/icons";
import { Empty, PageHead } from "@/kit/Panel";
import { Trouble } from "@/kit/Trouble";
import { type ConnectionState, useConnection } from "@/live/connection";
import { useDegraded } from "@/live/degraded";
import { Live } from "@/live/Live";
import { Mark } from "@/shell/Mark";
import { may, type Scope, useMay, useMe } from "@/shell/me";
import { Badge, Strip } from "@/shell/Strip";
import { applyTheme, THEMES, theme } from "@/shell/theme";
import { titleOf } from "@/shell/title";
import { timeOfDay } from "@/text/format";

interface Place {
  to:
    | "/"
    | "/nodes"
    | "/backends"
    | "/models"
    | "/operations"
    | "/playground"
    | "/usage"
    | "/access"
    | "/settings";
  label: string;
  icon: IconName;
  needs: Scope;
}

const PLACES: Place[] = [
  { to: "/", label: "Overview", icon: "overview", needs: "operate" },
  { to: "/playground", label: "Playground", icon: "playground", needs: "infer" },
  { to: "/models", label: "Models", icon: "models", needs: "operate" },
  { to: "/nodes", label: "Nodes", icon: "nodes", needs: "operate" },
  { to: "/backends", label: "Backends", icon: "backends", needs: "operate" },
  { to: "/operations", label: "Operations", icon: "operations", needs: "operate" },
  { to: "/usage", label: "Usage", icon: "usage", needs: "infer" },
  { to: "/access", label: "Keys and users", icon: "key", needs: "admin" },
  { to: "/settings", label: "Settings", icon: "settings", needs: "admin" },
];

export function Shell() {
  const operates = useMay("operate");
  const main = useFocusOnNavigation();
  useTitle();
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the page
      </a>
      <Navigation />
      <div className="content">
        {operates && <Live />}
        {operates && <Strip />}
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

/** Tabs, history and bookmarks are told apart by the title. */
function useTitle() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  useEffect(() => {
    document.title = titleOf(path, PLACES);
  }, [path]);
}

function Navigation() {
  const scope = useMe().scope;
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <header className={isOpen ? "rail open" : "rail"}>
      <div className="brand">
        <Mark />
        <span>Corral</span>
        <IconButton icon="menu" label="Menu" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} />
      </div>
      <nav aria-label="Pages">
        <ul className="plain">
          {PLACES.filter((place) => may(scope, place.needs)).map((place) => (
            <li key={place.to}>
              <Link
                to={place.to}
                activeOptions={{ exact: place.to === "/", includeSearch: false }}
                onClick={close}
              >
                <Icon name={place.icon} />
                <span>{place.label}</span>
                {place.to === "/operations" && <Badge />}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <Foot />
    </header>
  );
}

function Foot() {
  const me = useMe();
  const queries = useQueryClient();
  const operates = useMay("operate");
  const [chosen, choose] = useState(theme());
  const leave = async () => {
    await answer(api.DELETE("/api/session")).catch(() => null);
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
            label={`Colours: ${chosen}. Change`}
            onClick={() => {
              const next = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length] ?? "system";
              applyTheme(next);
              choose(next);
            }}
          />
          <IconButton icon="door" label="Log out" onClick={() => void leave()} />
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
      return since === undefined ? "No answer" : `No answer since ${timeOfDay(since)}`;
    case "lost":
      return "Connection lost; trying again";
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
  if (connection === "silent") return `The frontend has sent nothing${last}. What you see may be old.`;
  if (connection === "lost") return "The connection to the frontend is lost. What you see may be old.";
  return null;
}

function Degraded() {
  const trouble = connectionTrouble(useConnection());
  // The overview has them among what needs attention.
  const isOverview = useMatchRoute()({ to: "/" }) !== false;
  const known = useDegraded();
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
      <PageHead title="No such page" />
      <Empty title="There is nothing at this address.">
        <Link to="/">Back to the overview</Link>
      </Empty>
    </>
  );
}

/** A page's own script failed, or could not be fetched: after an upgrade its name is another. */
export function PageFailed({ error, reset }: { error: unknown; reset: () => void }) {
  return (
    <div className="stack">
      <PageHead title="This page failed" />
      <Trouble error={error} onRetry={reset} />
      <div>
        <Button onClick={() => window.location.reload()}>Load it anew</Button>
      </div>
    </div>
  );
}
