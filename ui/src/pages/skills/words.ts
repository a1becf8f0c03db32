// Decides which skills are shown and changed, and what a new one begins with. Pure.
import type { SkillOut, SkillRepoIn, SkillRepoOut } from "@/api/schema";

export const TEMPLATE = `---
name: my-skill
description: "What it does. Use it when …"
---

1. …
`;

export function filterSkills(skills: readonly SkillOut[], term: string): SkillOut[] {
  const lower = term.trim().toLowerCase();
  return skills.filter((skill) => `${skill.name} ${skill.description}`.toLowerCase().includes(lower));
}

/** Skills of repositories are changed there; shared ones of others by admins. */
export const canEdit = (
  skill: Pick<SkillOut, "read_only" | "is_own" | "shared">,
  isAdmin: boolean,
): boolean => !skill.read_only && (skill.is_own !== false || (isAdmin && skill.shared === true));

/** The form of a repository: texts as they are typed. */
export interface RepoFields {
  url: string;
  branch: string;
  secret: string;
  username: string;
  every: string;
  isShared: boolean;
}

export const makeRepoFields = (repo: SkillRepoOut | null): RepoFields => ({
  url: repo?.url ?? "",
  branch: repo?.branch ?? "",
  secret: repo?.secret ?? "",
  username: repo?.username ?? "",
  every: repo?.sync_interval ? formatMinutes(repo.sync_interval) : "",
  isShared: repo?.shared ?? false,
});

/** A user name without a secret means nothing, so it is left out. */
export const readRepoFields = (fields: RepoFields): SkillRepoIn => ({
  url: fields.url.trim(),
  branch: fields.branch.trim(),
  shared: fields.isShared,
  secret: fields.secret.trim(),
  username: fields.secret.trim() ? fields.username.trim() : "",
  sync_interval: fields.every.trim() || null,
});

/** Minutes as a duration that the field takes: 90 → "90m", 120 → "2h". */
export function formatMinutes(minutes: number): string {
  if (minutes % 1440 === 0) return `${minutes / 1440}d`;
  return minutes % 60 === 0 ? `${minutes / 60}h` : `${minutes}m`;
}
