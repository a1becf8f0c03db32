// Queries and API calls about skills, their files, and the git repositories that they come from.
import { queryOptions } from "@tanstack/react-query";
import { api, request, unwrapResponse } from "@/api/client";
import type { SkillDetailOut, SkillFileOut, SkillImportOut, SkillIn, SkillRepoOut } from "@/api/schema";
import { pollWhenLost } from "@/live/connection";
import { type RepoFields, readRepoFields } from "@/pages/skills/words";

/** Callers without the scope `operate` have no stream that announces changes. */
const NO_STREAM_POLL_MS = 15_000;
/** A sync takes seconds, and its end is announced to operators only. */
const SYNC_POLL_MS = 3_000;

const pollFor = (hasStream: boolean) => (hasStream ? pollWhenLost : NO_STREAM_POLL_MS);
const at = (name: string) => ({ params: { path: { name } } });
const repoAt = (repo_id: string) => ({ params: { path: { repo_id } } });

export const skillsQuery = (hasStream: boolean) =>
  queryOptions({
    queryKey: ["skills", "list"] as const,
    queryFn: () => unwrapResponse(api.GET("/api/agents/skills")),
    refetchInterval: pollFor(hasStream),
  });

export const skillQuery = (name: string, hasStream: boolean) =>
  queryOptions({
    queryKey: ["skills", "one", name] as const,
    queryFn: () => unwrapResponse(api.GET("/api/agents/skills/{name}", at(name))),
    refetchInterval: pollFor(hasStream),
  });

export const skillReposQuery = (hasStream: boolean) =>
  queryOptions({
    queryKey: ["skills", "repos"] as const,
    queryFn: () => unwrapResponse(api.GET("/api/agents/git-repos")),
    refetchInterval: ({ state }) => {
      if (state.data?.some(awaitsSync)) return SYNC_POLL_MS;
      return hasStream ? pollWhenLost() : NO_STREAM_POLL_MS;
    },
  });

/** Whether no sync of an enabled repository has ended yet. */
export const awaitsSync = (repo: SkillRepoOut): boolean =>
  repo.enabled !== false && !repo.commit && !repo.problem;

export const createSkill = (document: string): Promise<SkillDetailOut> =>
  unwrapResponse(api.POST("/api/agents/skills", { body: { document } as SkillIn }));
export const saveSkill = (name: string, document: string, revision: number): Promise<SkillDetailOut> =>
  unwrapResponse(
    api.PUT("/api/agents/skills/{name}", {
      params: { path: { name }, header: { "if-match": `"${revision}"` } },
      body: { document } as SkillIn,
    }),
  );
/** Shares a skill with everybody, or takes that back. Its text stays as it was read. */
export const shareSkill = (skill: SkillDetailOut, shared: boolean): Promise<SkillDetailOut> =>
  unwrapResponse(
    api.PUT("/api/agents/skills/{name}", {
      params: { path: { name: skill.name }, header: { "if-match": `"${skill.revision}"` } },
      body: { document: skill.document, shared } as SkillIn,
    }),
  );
export const deleteSkill = (name: string) =>
  unwrapResponse(api.DELETE("/api/agents/skills/{name}", at(name)));

/** Imports the skills of an archive, or of a single SKILL.md. */
export async function importSkills(file: File, replaces: boolean): Promise<readonly string[]> {
  if (file.name.toLowerCase().endsWith(".md")) return [(await createSkill(await file.text())).name];
  const form = new FormData();
  form.append("file", file);
  const answer = await request(`/api/agents/skills/import?replace=${replaces}`, {
    method: "POST",
    body: form,
  });
  return ((await answer.json()) as SkillImportOut).items.map((skill) => skill.name);
}

export async function uploadSkillFile(name: string, path: string, file: File): Promise<SkillFileOut> {
  const form = new FormData();
  form.append("path", path);
  form.append("file", file);
  const address = `/api/agents/skills/${encodeURIComponent(name)}/resources`;
  return await (await request(address, { method: "POST", body: form })).json();
}
export const deleteSkillFile = (name: string, path: string) =>
  request(fileAddress(name, path), { method: "DELETE" });

/** The address of a file of a skill, which the browser saves. */
export const fileAddress = (name: string, path: string): string =>
  `/api/agents/skills/${encodeURIComponent(name)}/resources/${path.split("/").map(encodeURIComponent).join("/")}`;
export const archiveAddress = (name: string): string =>
  `/api/agents/skills/export/${encodeURIComponent(name)}`;

/** Changes a repository, or adds one without an id. */
export const saveSkillRepo = (id: string | null, fields: RepoFields): Promise<SkillRepoOut> => {
  const body = readRepoFields(fields);
  return unwrapResponse(
    id === null
      ? api.POST("/api/agents/git-repos", { body })
      : api.PUT("/api/agents/git-repos/{repo_id}", { ...repoAt(id), body }),
  );
};
export const syncSkillRepo = (id: string) =>
  unwrapResponse(api.POST("/api/agents/git-repos/{repo_id}/sync", repoAt(id)));
export const enableSkillRepo = (id: string, enabled: boolean) =>
  unwrapResponse(api.POST("/api/agents/git-repos/{repo_id}/toggle", { ...repoAt(id), body: { enabled } }));
export const deleteSkillRepo = (id: string) =>
  unwrapResponse(api.DELETE("/api/agents/git-repos/{repo_id}", repoAt(id)));
