// The form of a task, for a new one and for a change. What is not saved is not left without a question.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useBlocker, useNavigate, useParams } from "@tanstack/react-router";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { asProblem } from "@/api/client";
import type { TaskOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { useToast } from "@/kit/toasts";
import { AttachmentSection } from "@/pages/tasks/form/AttachmentSection";
import { LimitSection } from "@/pages/tasks/form/LimitSection";
import { PromptSection } from "@/pages/tasks/form/PromptSection";
import { ScheduleSection } from "@/pages/tasks/form/ScheduleSection";
import { ToolSection } from "@/pages/tasks/form/ToolSection";
import { WebhookSection } from "@/pages/tasks/form/WebhookSection";
import { changeTask, createTask, taskQuery } from "@/pages/tasks/queries";
import {
  findTaskFaults,
  makeTaskBody,
  makeTaskForm,
  placeTaskProblem,
  type TaskFaults,
  type TaskForm,
} from "@/pages/tasks/taskForm";
import { listTemplateNames } from "@/pages/tasks/templateNames";
import { useCaller } from "@/pages/tasks/useCaller";
import { usePageName } from "@/shell/pageName";
import "@/pages/tasks/tasks.css";

/** The zone of the reader's clock: a schedule of a new task is meant in it. */
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

export default function NewTaskPage() {
  usePageName("New task");
  return (
    <>
      <p className="small">
        <Link to="/tasks">All tasks</Link>
      </p>
      <PageHeader title="New task" note="A name, a model and a prompt are enough." />
      <TaskEditor task={null} />
    </>
  );
}

export function EditTaskPage() {
  const { task: id } = useParams({ from: "/tasks/$task/edit" });
  // Read once: an edit of another user does not replace what is being typed.
  const query = useQuery({ ...taskQuery(id, useCaller()), refetchInterval: false });
  usePageName(query.data && `Edit ${query.data.name}`);
  return (
    <>
      <p className="small">
        <Link to="/tasks/$task" params={{ task: id }}>
          Back to the task
        </Link>
      </p>
      <QueryView query={query}>
        {(task) => (
          <>
            <PageHeader
              title={`Edit ${task.name}`}
              note="Jobs that have begun stay as they were; the next ones use the change."
            />
            <TaskEditor key={task.id} task={task} />
          </>
        )}
      </QueryView>
    </>
  );
}

/** What every section of the form gets. */
export interface SectionProps {
  form: TaskForm;
  faults: TaskFaults;
  set: (part: Partial<TaskForm>) => void;
}

function TaskEditor({ task }: { task: TaskOut | null }) {
  const { isAdmin } = useCaller();
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  const element = useRef<HTMLFormElement>(null);
  // The text that was read: a later answer of the server does not change what is edited.
  const [before] = useState(task);
  const [form, setForm] = useState(() => makeTaskForm(before, OWN_ZONE));
  const [first] = useState(form);
  const [faults, setFaults] = useState<TaskFaults>({});
  const isSaved = useRef(false);
  const isChanged = form !== first;
  const names = listTemplateNames(form.prompt);
  const set = (part: Partial<TaskForm>) => setForm((was) => ({ ...was, ...part }));

  const submission = useMutation({
    mutationFn: async () => {
      const body = makeTaskBody(form, names, before);
      return before ? (await changeTask(before.id, body, isAdmin)).id : (await createTask(body)).id;
    },
    onSuccess: async (id) => {
      isSaved.current = true;
      toast(before ? `Saved ${form.name.trim()}.` : `Created task ${form.name.trim()}.`);
      void cache.invalidateQueries({ queryKey: ["tasks"] });
      await navigate({ to: "/tasks/$task", params: { task: id } });
    },
    onError: (error) => setFaults(placeTaskProblem(asProblem(error), form) ?? {}),
  });
  const leaving = useBlocker({
    shouldBlockFn: () => isChanged && !isSaved.current,
    withResolver: true,
    enableBeforeUnload: () => isChanged && !isSaved.current,
  });
  useEffect(() => {
    if (Object.keys(faults).length > 0)
      element.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [faults]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const found = findTaskFaults(form);
    setFaults(found);
    submission.reset();
    if (Object.keys(found).length === 0) submission.mutate();
  };
  const isPlaced = submission.error && Object.keys(faults).length > 0;
  const section = { form, faults, set };
  return (
    <form ref={element} className="stack tasks-form" onSubmit={submit} noValidate>
      <PromptSection {...section} names={names} />
      <ScheduleSection {...section} names={names} />
      <AttachmentSection {...section} />
      <ToolSection {...section} />
      <WebhookSection {...section} />
      <LimitSection {...section} />
      {!isPlaced && <ErrorNotice error={submission.error} />}
      <div className="row tasks-buttons tasks-save">
        {Object.keys(faults).length > 0 && <span className="bad-text small">Correct the marked fields.</span>}
        <Link
          className="button plain"
          {...(before ? { to: "/tasks/$task", params: { task: before.id } } : { to: "/tasks" })}
        >
          Cancel
        </Link>
        <Button kind="primary" type="submit" busy={submission.isPending}>
          {before ? "Save" : "Create task"}
        </Button>
      </div>
      {leaving.status === "blocked" && (
        <ConfirmDialog
          title="Leave without saving?"
          verb="Discard changes and leave"
          onConfirm={async () => leaving.proceed()}
          onClose={() => leaving.reset()}
        >
          Your changes to {form.name.trim() || "the new task"} are not saved.
        </ConfirmDialog>
      )}
    </form>
  );
}
