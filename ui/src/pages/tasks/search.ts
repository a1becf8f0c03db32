import { dropUndefined, parseChoice, parseText } from "@/text/search";

export const JOB_STATUSES = ["pending", "running", "completed", "failed", "cancelled"] as const;
const OWNERS = ["everybody"] as const;

export function tasksSearch(search: Record<string, unknown>) {
  return dropUndefined({
    q: parseText(search, "q"),
    /** Whose tasks: everybody's, which only admins may see; without it, those of the caller. */
    owner: parseChoice(search, "owner", OWNERS),
  });
}

export function jobsSearch(search: Record<string, unknown>) {
  return dropUndefined({
    status: parseChoice(search, "status", JOB_STATUSES),
    /** The id of a task. */
    task: parseText(search, "task"),
    owner: parseChoice(search, "owner", OWNERS),
  });
}

export type JobsSearch = ReturnType<typeof jobsSearch>;
