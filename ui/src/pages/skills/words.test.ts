import { expect, test } from "vitest";
import type { SkillOut } from "@/api/schema";
import { canEdit, filterSkills } from "@/pages/skills/words";

const skill = (part: Partial<SkillOut>) =>
  ({ name: "pdf-forms", description: "Fills in forms.", is_own: true, ...part }) as SkillOut;

test("a search finds words of the name and the description in any case", () => {
  const all = [skill({}), skill({ name: "tables", description: "About sheets." })];
  expect(filterSkills(all, " PDF ").map((one) => one.name)).toEqual(["pdf-forms"]);
  expect(filterSkills(all, "sheets").map((one) => one.name)).toEqual(["tables"]);
  expect(filterSkills(all, "")).toHaveLength(2);
});

test("a skill of a repository is read-only, and one of others is changed by admins if it is shared", () => {
  expect(canEdit(skill({}), false)).toBe(true);
  expect(canEdit(skill({ read_only: true }), true)).toBe(false);
  expect(canEdit(skill({ is_own: false, shared: true }), false)).toBe(false);
  expect(canEdit(skill({ is_own: false, shared: true }), true)).toBe(true);
});
