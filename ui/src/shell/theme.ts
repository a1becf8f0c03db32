// Light, dark, or as the system has it. Kept in this browser.
export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEPT_AS = "corral.theme";

export function theme(): Theme {
  const kept = localStorage.getItem(KEPT_AS);
  return THEMES.find((word) => word === kept) ?? "system";
}

export function applyTheme(wanted: Theme = theme()): void {
  if (wanted === "system") {
    localStorage.removeItem(KEPT_AS);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(KEPT_AS, wanted);
    document.documentElement.dataset.theme = wanted;
  }
}
