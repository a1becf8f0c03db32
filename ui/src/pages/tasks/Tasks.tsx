// The list of tasks: those of the caller, and for admins those of everybody.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { JobOut, TaskOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { SearchField, SegmentedControl } from "@/kit/fields";
import { Icon } from "@/kit/icons";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { DeleteTaskDialog } from "@/pages/tasks/DeleteTaskDialog";
import { JOBS_MAX, jobsQuery, tasksQuery } from "@/pages/tasks/queries";
import { RunTaskDialog } from "@/pages/tasks/RunTaskDialog";
import { TaskRow } from "@/pages/tasks/TaskRow";
import { TaskTabs } from "@/pages/tasks/TaskTabs";
import { filterTasks, findLastJobs } from "@/pages/tasks/taskLists";
import { useCaller, useOwnTasks } from "@/pages/tasks/useCaller";
import { usePageSearch } from "@/shell/usePageSearch";
import "@/pages/runs/runs.css";
import "@/pages/tasks/tasks.css";

type TaskAction = { kind: "run" | "delete"; task: TaskOut };

export default function Tasks() {
  const [{ q = "", owner }, setSearch] = usePageSearch("/tasks");
  const caller = useCaller();
  const isOwn = useOwnTasks();
  const isEverybody = caller.isAdmin && owner === "everybody";
  const query = useQuery(tasksQuery(isEverybody, caller.hasStream));
  const jobs = useQuery(jobsQuery(isEverybody ? { owner } : {}, JOBS_MAX, caller));
  const [dialog, setDialog] = useState<TaskAction | null>(null);
  const close = () => setDialog(null);
  return (
    <>
      <PageHeader
        title="Tasks"
        note="Prompts with a name and a model. Run them by hand, on a schedule, or with a call of the API."
      >
        <Link to="/tasks/new" className="button primary">
          <Icon name="plus" />
          New task
        </Link>
      </PageHeader>
      <TaskTabs />
      <div className="stack">
        <div className="row">
          {caller.isAdmin && (
            <SegmentedControl
              label="Whose tasks"
              value={owner ?? "mine"}
              options={[
                { value: "mine", label: "Mine" },
                { value: "everybody", label: "Everybody" },
              ]}
              onChange={(word) => setSearch({ owner: word === "everybody" ? word : undefined })}
            />
          )}
          <SearchField
            label="Search tasks"
            value={q}
            onChange={(term) => setSearch({ q: term || undefined }, true)}
          />
        </div>
        <QueryView query={query}>
          {(all) => {
            const shown = filterTasks(all, q);
            if (shown.length === 0)
              return (
                <NoTasks
                  isFiltered={all.length > 0}
                  onClear={() => setSearch({ q: undefined })}
                  onEverybody={
                    caller.isAdmin && !isEverybody ? () => setSearch({ owner: "everybody" }) : null
                  }
                />
              );
            return (
              <TaskList
                tasks={shown}
                jobs={jobs.data}
                isOwn={isOwn}
                withOwner={isEverybody}
                onRun={(task) => setDialog({ kind: "run", task })}
                onDelete={(task) => setDialog({ kind: "delete", task })}
              />
            );
          }}
        </QueryView>
      </div>
      {dialog?.kind === "run" && <RunTaskDialog task={dialog.task} onClose={close} />}
      {dialog?.kind === "delete" && <DeleteTaskDialog task={dialog.task} onClose={close} />}
    </>
  );
}

interface TaskListProps {
  tasks: TaskOut[];
  jobs: JobOut[] | undefined;
  isOwn: (task: TaskOut) => boolean;
  withOwner: boolean;
  onRun: (task: TaskOut) => void;
  onDelete: (task: TaskOut) => void;
}

function TaskList({ tasks, jobs, isOwn, withOwner, onRun, onDelete }: TaskListProps) {
  const last = findLastJobs(jobs ?? []);
  // Where the server has listed all jobs, a task without one has never run.
  const isComplete = jobs !== undefined && jobs.length < JOBS_MAX;
  return (
    <ul className="plain tasks-list" aria-label="Tasks">
      {tasks.map((task) => (
        <TaskRow
          key={task.id}
          task={task}
          lastJob={last.get(task.id) ?? (isComplete ? null : undefined)}
          isKnown={jobs !== undefined}
          withOwner={withOwner}
          onRun={isOwn(task) ? () => onRun(task) : null}
          onDelete={() => onDelete(task)}
        />
      ))}
    </ul>
  );
}

interface NoTasksProps {
  isFiltered: boolean;
  onClear: () => void;
  /** Null where those of everybody are shown already, or may not be. */
  onEverybody: (() => void) | null;
}

function NoTasks({ isFiltered, onClear, onEverybody }: NoTasksProps) {
  if (isFiltered) {
    return (
      <EmptyState title="No tasks match this search.">
        <Button small onClick={onClear}>
          Clear search
        </Button>
      </EmptyState>
    );
  }
  return (
    <EmptyState title={onEverybody ? "You have no tasks yet." : "No tasks yet."}>
      <p className="tasks-about">
        A task is a prompt that you write once and run often. It has a model, and parameters such as{" "}
        <code>{"{{ city }}"}</code> that each run fills in. A run of a task is a job: it is kept with its
        result and its trace.
      </p>
      <p className="tasks-about">
        Begin with a name, a model and a prompt. Add a schedule, attachments or a webhook when you need them.
      </p>
      <p className="row tasks-begin">
        <Link to="/tasks/new" className="button plain">
          <Icon name="plus" />
          Create your first task
        </Link>
        {onEverybody && <Button onClick={onEverybody}>Show everybody's tasks</Button>}
      </p>
    </EmptyState>
  );
}
