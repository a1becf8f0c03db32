// Confirms the deletion of a task.
import { useQueryClient } from "@tanstack/react-query";
import type { TaskOut } from "@/api/schema";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { useToast } from "@/kit/toasts";
import { deleteTask } from "@/pages/tasks/queries";
import { useCaller } from "@/pages/tasks/useCaller";

interface DeleteTaskDialogProps {
  task: TaskOut;
  onClose: () => void;
  /** Called when the task is gone, before its queries are fetched again. */
  onDeleted?: () => Promise<void>;
}

export function DeleteTaskDialog({ task, onClose, onDeleted }: DeleteTaskDialogProps) {
  const { isAdmin } = useCaller();
  const toast = useToast();
  const cache = useQueryClient();
  const remove = async () => {
    await deleteTask(task.id, isAdmin);
    toast(`Deleted task ${task.name}.`);
    await onDeleted?.();
    cache.removeQueries({ queryKey: ["tasks", "one", task.id] });
    void cache.invalidateQueries({ queryKey: ["tasks"] });
  };
  return (
    <ConfirmDialog
      title={`Delete ${task.name}?`}
      verb={`Delete ${task.name}`}
      onConfirm={remove}
      onClose={onClose}
    >
      <p>
        {task.cron ? "Its schedule ends. " : ""}Jobs that have begun go on, and all its jobs stay readable.
        The task itself cannot be restored.
      </p>
    </ConfirmDialog>
  );
}
