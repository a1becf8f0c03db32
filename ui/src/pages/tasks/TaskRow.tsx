// The row of one task: model, schedule, next run, last job, and the switch that enables it.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import type { JobOut, TaskOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Menu } from "@/kit/Menu";
import { RelativeTime } from "@/kit/RelativeTime";
import { Switch } from "@/kit/Switch";
import { Pill, Tag } from "@/kit/status";
import { jobsQuery, setTaskEnabled } from "@/pages/tasks/queries";
import { describeSchedule } from "@/pages/tasks/schedule";
import { useCaller } from "@/pages/tasks/useCaller";
import { jobWord } from "@/text/job";

interface TaskRowProps {
  task: TaskOut;
  /** Null if the task has no job; undefined if the list of jobs does not reach far enough back to tell. */
  lastJob: JobOut | null | undefined;
  /** Whether the list of jobs was read at all. */
  isKnown: boolean;
  withOwner: boolean;
  /** Null where the caller may not run it. */
  onRun: (() => void) | null;
  onDelete: () => void;
}

export function TaskRow({ task, lastJob, isKnown, withOwner, onRun, onDelete }: TaskRowProps) {
  const navigate = useNavigate();
  const edit = () => void navigate({ to: "/tasks/$task/edit", params: { task: task.id } });
  return (
    <li className={task.enabled ? "tasks-row panel" : "tasks-row tasks-off panel"} aria-label={task.name}>
      <div className="tasks-name">
        <span className="row">
          <Link to="/tasks/$task" params={{ task: task.id }}>
            {task.name}
          </Link>
          <Tag>{task.model}</Tag>
        </span>
        <span className="small soft tasks-description">
          {[task.description, withOwner && `by ${task.created_by}`].filter(Boolean).join(" · ")}
        </span>
      </div>
      <div className="tasks-when">
        <Schedule task={task} />
      </div>
      <div className="tasks-last">
        <span className="small soft">Last job</span>
        {lastJob === undefined && isKnown ? (
          <OlderJob task={task} />
        ) : (
          <LastJob job={lastJob ?? null} isKnown={isKnown} />
        )}
      </div>
      <div className="row tasks-actions">
        <EnabledSwitch task={task} />
        {onRun && (
          <Button
            small
            icon="play"
            aria-label={`Run ${task.name}`}
            disabled={!task.enabled}
            title={task.enabled ? undefined : "The task is disabled."}
            onClick={onRun}
          >
            Run
          </Button>
        )}
        <Menu
          label={`Actions for ${task.name}`}
          items={[
            { label: "Edit", icon: "settings", onSelect: edit },
            { label: "Delete", icon: "trash", danger: true, onSelect: onDelete },
          ]}
        />
      </div>
    </li>
  );
}

function Schedule({ task }: { task: TaskOut }) {
  const schedule = describeSchedule(task);
  if (schedule === null) return <span className="faint">On request only</span>;
  return (
    <>
      <span className="tasks-words">{schedule}</span>
      <span className="small soft">
        {task.next_run_at ? (
          <>
            Next run <RelativeTime at={task.next_run_at} />
          </>
        ) : (
          "Disabled: no next run"
        )}
      </span>
      {task.cron_note && <span className="small warn-text">{task.cron_note}</span>}
    </>
  );
}

/** Asks for the last job of a task that has none among the newest jobs of all tasks. */
function OlderJob({ task }: { task: TaskOut }) {
  const caller = useCaller();
  const owner = caller.isAdmin ? ({ owner: "everybody" } as const) : {};
  const { data } = useQuery(jobsQuery({ task: task.id, ...owner }, 1, caller));
  return <LastJob job={data?.[0] ?? null} isKnown={data !== undefined} />;
}

function LastJob({ job, isKnown }: { job: JobOut | null; isKnown: boolean }) {
  if (!job) return <span className="faint">{isKnown ? "none yet" : ""}</span>;
  const { text, tone } = jobWord(job.status);
  return (
    <span className="row tasks-job">
      <Pill tone={tone}>{text}</Pill>
      <Link className="small" to="/tasks/jobs/$job" params={{ job: job.id }}>
        <RelativeTime at={job.created_at} />
      </Link>
    </span>
  );
}

export function EnabledSwitch({ task }: { task: TaskOut }) {
  const { isAdmin } = useCaller();
  const cache = useQueryClient();
  const change = useMutation({
    mutationFn: (isEnabled: boolean) => setTaskEnabled(task.id, isEnabled, isAdmin),
    onSettled: () => cache.invalidateQueries({ queryKey: ["tasks"] }),
  });
  return (
    <>
      <Switch
        label={`${task.name} is enabled`}
        isOn={change.isPending ? change.variables : task.enabled}
        disabled={change.isPending}
        onChange={(isOn) => change.mutate(isOn)}
      />
      {change.error && <ErrorNotice error={change.error} />}
    </>
  );
}
