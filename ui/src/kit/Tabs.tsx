// Tabs, of which one is shown; the URL names it. Arrow keys move among the tabs, Enter opens one.
import { Link } from "@tanstack/react-router";
import { type KeyboardEvent, type ReactNode, useId } from "react";
import { computeNextFocusIndex } from "@/kit/rovingFocus";

interface TabsProps<T extends string> {
  /** The label of the tab list: "About gpu-a". */
  label: string;
  /** The labels of the tabs, by their value of `tab` in the URL. Without one, the first is shown. */
  tabs: Readonly<Record<T, string>>;
  shown: T;
  /** Other search parameters of the page, which a change of the tab keeps. */
  kept?: object;
  /** The content of the tab that is shown. */
  children: ReactNode;
}

export function Tabs<T extends string>({ label, tabs, shown, kept, children }: TabsProps<T>) {
  const id = useId();
  const names = Object.keys(tabs) as T[];
  return (
    <>
      <div className="tabs" role="tablist" aria-label={label}>
        {names.map((name, place) => (
          <Link
            key={name}
            to="."
            search={{ ...kept, tab: place === 0 ? undefined : name } as never}
            // Without it, the router takes the first tab for the current one beside every other.
            activeOptions={{ explicitUndefined: true }}
            role="tab"
            id={`${id}-${name}`}
            aria-selected={name === shown}
            aria-controls={name === shown ? `${id}-part` : undefined}
            tabIndex={name === shown ? 0 : -1}
            onKeyDown={onKeyDown}
          >
            {tabs[name]}
          </Link>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-part`} aria-labelledby={`${id}-${shown}`}>
        {children}
      </div>
    </>
  );
}

function onKeyDown(event: KeyboardEvent<HTMLAnchorElement>) {
  const here = event.currentTarget;
  const all = [...(here.parentElement?.querySelectorAll<HTMLElement>('[role="tab"]') ?? [])];
  const to = computeNextFocusIndex(all.indexOf(here), event.key, all.length, "across");
  if (to === null && event.key !== " ") return;
  event.preventDefault();
  if (to === null) here.click();
  else all[to]?.focus();
}
