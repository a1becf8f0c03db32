// Decides which skills are shown and changed, and what a new one begins with. Pure.
import type { SkillOut } from "@/api/schema";

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
