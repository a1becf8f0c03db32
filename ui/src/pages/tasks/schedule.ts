// Describes the schedule of a task in words. Pure.
import type { TaskOut } from "@/api/schema";

/** `every day at 09:00, Europe/Rome`; null without a schedule. */
export function describeSchedule(task: Pick<TaskOut, "cron" | "cron_words" | "time_zone">): string | null {
  return task.cron ? `${task.cron_words}, ${task.time_zone}` : null;
}

export const OVERLAP_WORDS = {
  skip: "Skip the new job",
  queue: "Queue the new job behind it",
  replace: "Cancel the earlier job",
} as const;

export const CATCH_UP_WORDS = {
  none: "Do not run them",
  once: "Run one job for all of them",
} as const;

/** The text for a value of the server; an unknown value is shown as it is. */
export function findWord(words: Readonly<Record<string, string>>, value: string): string {
  return words[value] ?? value;
}
