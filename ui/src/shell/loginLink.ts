// The key of a login link: `#key=…`, as `corral up` and `corral open` print it. It is taken out of the address and the
// history before anything else happens, when the page is opened and when the link is opened in a tab that shows the page.
import { useSyncExternalStore } from "react";

/** Takes the key out of the address of a window and returns it; null: the address has none. */
export function takeLinkKey(view: Pick<Window, "location" | "history">): string | null {
  const key = new URLSearchParams(view.location.hash.slice(1)).get("key");
  if (!key) return null;
  // Replaces the history entry of the link, so that going back does not lead to the key.
  view.history.replaceState(view.history.state, "", view.location.pathname + view.location.search);
  return key;
}

let linkKey = takeLinkKey(window);
const listeners = new Set<() => void>();

function setLinkKey(key: string | null) {
  linkKey = key;
  for (const listener of listeners) listener();
}

window.addEventListener("hashchange", () => {
  const key = takeLinkKey(window);
  if (key !== null) setLinkKey(key);
});

const forgetLinkKey = () => setLinkKey(null);

/** The key of a link that was opened and is not used yet, and how to forget it. */
export function useLinkKey(): [string | null, () => void] {
  const key = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => linkKey,
  );
  return [key, forgetLinkKey];
}
