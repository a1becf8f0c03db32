import { expect, test } from "vitest";
import type { SkillOut, SkillRepoOut } from "@/api/schema";
import { canEdit, filterSkills, formatMinutes, makeRepoFields, readRepoFields } from "@/pages/skills/words";

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

test("a repository is written as it was read, and a user name without a secret is left out", () => {
  const repo = {
    url: "https://g/x",
    secret: "secret:t",
    username: "ann",
    sync_interval: 120,
  } as SkillRepoOut;
  const fields = makeRepoFields(repo);
  expect(fields.every).toBe("2h");
  expect(readRepoFields(fields)).toMatchObject({ secret: "secret:t", username: "ann", sync_interval: "2h" });
  expect(readRepoFields({ ...fields, secret: " ", every: "" })).toMatchObject({
    secret: "",
    username: "",
    sync_interval: null,
  });
  expect([1440, 90, 7.5].map(formatMinutes)).toEqual(["1d", "90m", "7.5m"]);
});
