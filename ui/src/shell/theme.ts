// The colour theme: light, dark or that of the system. Stored in this browser.
export const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

const STORAGE_KEY = "corral.theme";

export function readTheme(): Theme {
  const stored = localStorage.getItem(STORAGE_KEY);
  return THEMES.find((word) => word === stored) ?? "system";
}

export function applyTheme(theme: Theme = readTheme()): void {
  if (theme === "system") {
    localStorage.removeItem(STORAGE_KEY);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(STORAGE_KEY, theme);
    document.documentElement.dataset.theme = theme;
  }
}
