// The title of each page, by its address: `gpu-a · Nodes · Corral`. Pure.
// Where the address has an id, the page gives the name (shell/pageName.ts).

interface TitledPage {
  to: string;
  label: string;
}

const BASE = "/app";

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** `name` is that of what the page shows, if the page knows it better than the address. */
export function makePageTitle(path: string, places: readonly TitledPage[], name?: string): string {
  const inside = path.startsWith(BASE) ? path.slice(BASE.length) : path;
  const [first = "", ...rest] = inside.split("/").filter(Boolean);
  const place = places.find(({ to }) => to === `/${first}`);
  if (!place) return "Page not found · Corral";
  const shown = rest.map(decoded).filter((part) => !ID.test(part));
  const subject = name ?? shown.join("/");
  return [...(subject && rest.length > 0 ? [subject] : []), place.label, "Corral"].join(" · ");
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
