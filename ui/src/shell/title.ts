// The title of each page, by its address: `gpu-a · Nodes · Corral`. Pure.

interface TitledPlace {
  to: string;
  label: string;
}

const BASE = "/app";

export function titleOf(path: string, places: readonly TitledPlace[]): string {
  const inside = path.startsWith(BASE) ? path.slice(BASE.length) : path;
  const [first = "", ...rest] = inside.split("/").filter(Boolean);
  const place = places.find(({ to }) => to === `/${first}`);
  if (!place) return "No such page · Corral";
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
