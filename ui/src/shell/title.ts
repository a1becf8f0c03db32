// The title of each page, by its address: `gpu-a · Nodes · Corral`. Pure.

interface TitledPage {
  to: string;
  label: string;
}

const BASE = "/app";

export function makePageTitle(path: string, places: readonly TitledPage[]): string {
  const inside = path.startsWith(BASE) ? path.slice(BASE.length) : path;
  const [first = "", ...rest] = inside.split("/").filter(Boolean);
  const place = places.find(({ to }) => to === `/${first}`);
  if (!place) return "Page not found · Corral";
  const name = rest.length > 0 ? [rest.map(decoded).join("/")] : [];
  return [...name, place.label, "Corral"].join(" · ");
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
