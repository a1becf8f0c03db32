// What the caller may do about tasks, and which tasks are theirs.
import { useQuery } from "@tanstack/react-query";
import type { TaskOut } from "@/api/schema";
import { type Caller, tasksQuery } from "@/pages/tasks/queries";
import { useHasScope } from "@/shell/me";

export function useCaller(): Caller {
  return { isAdmin: useHasScope("admin"), hasStream: useHasScope("operate") };
}

/** Says whether a task is the caller's own: an admin sees the tasks of others, and cannot run them. */
export function useOwnTasks(): (task: Pick<TaskOut, "id">) => boolean {
  const { isAdmin, hasStream } = useCaller();
  const { data } = useQuery({ ...tasksQuery(false, hasStream), enabled: isAdmin });
  if (!isAdmin) return () => true;
  const own = new Set(data?.map((task) => task.id));
  return (task) => own.has(task.id);
}
