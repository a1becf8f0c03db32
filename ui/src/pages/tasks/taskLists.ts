// Filters tasks, and finds the last job of each. Pure.
import type { JobOut, TaskOut } from "@/api/schema";

export function filterTasks(tasks: readonly TaskOut[], term: string): TaskOut[] {
  const words = term.trim().toLowerCase().split(/\s+/).filter(Boolean);
  return tasks.filter((task) => {
    const text = `${task.name} ${task.description} ${task.model}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** The newest job of each task, by the id of the task. Jobs come newest first. */
export function findLastJobs(jobs: readonly JobOut[]): ReadonlyMap<string, JobOut> {
  const found = new Map<string, JobOut>();
  for (const job of jobs) {
    if (job.task_id && !found.has(job.task_id)) found.set(job.task_id, job);
  }
  return found;
}
