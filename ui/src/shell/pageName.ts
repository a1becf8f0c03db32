// The name of what a page shows, for the title of the document, where the address has only an id.
import { useEffect, useSyncExternalStore } from "react";

const watchers = new Set<() => void>();
let shown: string | undefined;

function setName(name: string | undefined): void {
  if (name === shown) return;
  shown = name;
  for (const notify of watchers) notify();
}

/** Sets the name while the calling page is shown. */
export function usePageName(name: string | undefined): void {
  useEffect(() => {
    setName(name);
    return () => setName(undefined);
  }, [name]);
}

export function useShownName(): string | undefined {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => shown,
  );
}
