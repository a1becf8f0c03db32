// Filters, sorts and describes settings, galleries, tokens and audit entries.
import type { AuditEntryOut, ClusterOut, GalleryOut, SettingOut, TokenOut } from "@/api/schema";
import type { Tone } from "@/kit/status";
import { findStateWord } from "@/text/stateWords";

interface SettingsSection {
  name: string;
  settings: SettingOut[];
}

const has = (term: string, ...texts: string[]) => texts.some((text) => text.toLowerCase().includes(term));
const word = (term: string) => term.trim().toLowerCase();

export const isChangedFromDefault = (setting: SettingOut): boolean => setting.source !== "default";

/** Groups settings by section, in the frontend's order. */
export function groupSettings(all: SettingOut[], term: string, onlySet: boolean): SettingsSection[] {
  const found = new Map<string, SettingOut[]>();
  for (const setting of all) {
    if (onlySet && !isChangedFromDefault(setting)) continue;
    if (!has(word(term), setting.name, setting.sentence, setting.section, setting.source)) continue;
    found.set(setting.section, [...(found.get(setting.section) ?? []), setting]);
  }
  return [...found].map(([name, settings]) => ({ name, settings }));
}

export function valueWords(setting: SettingOut): string {
  if (setting.is_secret) return setting.value ? "set, not shown" : "not set";
  if (setting.value === null || setting.value === "") return "not set";
  return setting.value;
}

/** Whether this frontend lets an admin change the setting: a value given at its start wins over any change. */
export const isChangeable = (setting: SettingOut): boolean =>
  setting.is_live === true && (setting.source === "default" || isChanged(setting));

export const isChanged = (setting: SettingOut): boolean => setting.source.startsWith("cluster");

/** The environment variable of a setting. */
export const makeVariableName = (setting: SettingOut): string => `CORRAL_${setting.name.toUpperCase()}`;

export function galleryState(gallery: GalleryOut): { tone: Tone; words: string } {
  if (gallery.problem) {
    return gallery.entries > 0
      ? { tone: "warn", words: "using an older copy" }
      : { tone: "bad", words: "unreadable" };
  }
  if (!gallery.url) return { tone: "good", words: "built in" };
  return gallery.fetched_at
    ? { tone: "good", words: "up to date" }
    : { tone: "busy", words: "not fetched yet" };
}

const TOKEN_TONES: Record<string, Tone> = {
  active: "good",
  used_up: "still",
  expired: "warn",
  revoked: "still",
};

export const tokenTone = (state: string): Tone => TOKEN_TONES[state] ?? "still";
export const tokenState = (state: string): string => findStateWord("secret", state);

/** Sorts active tokens first, then newest first. */
export function filterTokens(tokens: TokenOut[], all: boolean): TokenOut[] {
  const works = (token: TokenOut) => Number(token.state === "active");
  return tokens
    .filter((token) => all || token.state === "active")
    .sort((one, other) => works(other) - works(one) || other.created_at.localeCompare(one.created_at));
}

export function usesWords(token: TokenOut): string {
  return token.max_uses == null ? `${token.uses} times, unlimited` : `${token.uses} of ${token.max_uses}`;
}

export function filterEntries(entries: AuditEntryOut[], term: string): AuditEntryOut[] {
  return entries.filter((entry) => has(word(term), entry.actor, entry.action, entry.target, entry.detail));
}

/** The versions that frontends run; more than one means that an upgrade is under way, or was forgotten. */
export function listVersions(cluster: ClusterOut): string[] {
  const alive = cluster.frontends.filter((frontend) => frontend.alive);
  return [...new Set(alive.map((frontend) => frontend.version))].sort();
}
