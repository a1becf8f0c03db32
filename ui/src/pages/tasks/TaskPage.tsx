// The page of one task: its prompt, its schedule, what it is sent with, and its jobs.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { TaskOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { type Fact, FactList } from "@/kit/FactList";
import { Icon } from "@/kit/icons";
import { PageHeader, Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RecordView } from "@/kit/RecordView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { DeleteTaskDialog } from "@/pages/tasks/DeleteTaskDialog";
import { JobRow } from "@/pages/tasks/JobRow";
import { formatParameter } from "@/pages/tasks/parameters";
import { jobsQuery, taskQuery } from "@/pages/tasks/queries";
import { RunTaskDialog } from "@/pages/tasks/RunTaskDialog";
import { CATCH_UP_WORDS, describeSchedule, findWord, OVERLAP_WORDS } from "@/pages/tasks/schedule";
import { EnabledSwitch } from "@/pages/tasks/TaskRow";
import { useCaller, useOwnTasks } from "@/pages/tasks/useCaller";
import { WebhookSecretDialog } from "@/pages/tasks/WebhookSecretDialog";
import { usePageName } from "@/shell/pageName";
import { duration, formatCount } from "@/text/format";
import "@/pages/runs/runs.css";
import "@/pages/tasks/tasks.css";

const SHOWN_JOBS = 20;

export default function TaskPage() {
  const { task: id } = useParams({ from: "/tasks/$task" });
  const query = useQuery(taskQuery(id, useCaller()));
  usePageName(query.data?.name);
  return (
    <RecordView query={query} back={<Link to="/tasks">All tasks</Link>} gone="This task was deleted.">
      {(task) => <TaskBody key={task.id} task={task} />}
    </RecordView>
  );
}

function TaskBody({ task }: { task: TaskOut }) {
  return (
    <>
      <TaskHeader task={task} />
      <div className="runs-one">
        <div className="stack">
          <Prompt task={task} />
          <JobHistory task={task} />
        </div>
        <div className="stack">
          <SchedulePanel task={task} />
          <WebhookPanel task={task} />
          <AboutPanel task={task} />
        </div>
      </div>
    </>
  );
}

function TaskHeader({ task }: { task: TaskOut }) {
  const navigate = useNavigate();
  const isOwn = useOwnTasks()(task);
  const [dialog, setDialog] = useState<"run" | "delete" | null>(null);
  const close = () => setDialog(null);
  return (
    <>
      <PageHeader
        title={task.name}
        note={
          <>
            <p className="row">
              <EnabledSwitch task={task} />
              <Pill tone={task.enabled ? "good" : "still"}>{task.enabled ? "enabled" : "disabled"}</Pill>
              <Tag>{task.model}</Tag>
            </p>
            {task.description && <p className="tasks-text">{task.description}</p>}
          </>
        }
      >
        <Button icon="trash" onClick={() => setDialog("delete")}>
          Delete
        </Button>
        <Link className="button plain" to="/tasks/$task/edit" params={{ task: task.id }}>
          <Icon name="settings" />
          Edit
        </Link>
        {isOwn && (
          <Button
            kind="primary"
            icon="play"
            disabled={!task.enabled}
            title={task.enabled ? undefined : "The task is disabled."}
            onClick={() => setDialog("run")}
          >
            Run
          </Button>
        )}
      </PageHeader>
      {dialog === "run" && <RunTaskDialog task={task} onClose={close} />}
      {dialog === "delete" && (
        <DeleteTaskDialog task={task} onClose={close} onDeleted={() => navigate({ to: "/tasks" })} />
      )}
    </>
  );
}

function Prompt({ task }: { task: TaskOut }) {
  const names = task.parameters ?? [];
  return (
    <Panel title="Prompt">
      <pre className="tasks-prompt">{task.prompt}</pre>
      <p className="row small soft">
        {names.length === 0 ? "No parameters." : "Parameters:"}
        {names.map((name) => (
          <Tag key={name}>{name}</Tag>
        ))}
      </p>
    </Panel>
  );
}

function JobHistory({ task }: { task: TaskOut }) {
  const caller = useCaller();
  const owner = caller.isAdmin ? ({ owner: "everybody" } as const) : {};
  const query = useQuery(jobsQuery({ task: task.id, ...owner }, SHOWN_JOBS, caller));
  return (
    <Panel
      title="Jobs"
      actions={
        <Link className="small" to="/tasks/jobs" search={{ task: task.id, ...owner }}>
          All jobs of {task.name}
        </Link>
      }
    >
      <QueryView query={query}>
        {(jobs) =>
          jobs.length === 0 ? (
            <p className="soft">No jobs yet. Run the task, or give it a schedule.</p>
          ) : (
            <ul className="plain runs-list" aria-label="Jobs">
              {jobs.map((job) => (
                <JobRow key={job.id} job={job} withTask={false} />
              ))}
            </ul>
          )
        }
      </QueryView>
    </Panel>
  );
}

function SchedulePanel({ task }: { task: TaskOut }) {
  const schedule = describeSchedule(task);
  if (schedule === null) {
    return (
      <Panel title="Schedule">
        <p className="soft">None. The task runs when you or a program starts it.</p>
      </Panel>
    );
  }
  const parameters = Object.entries(task.cron_parameters ?? {});
  const facts: Fact[] = [
    ["Runs", schedule],
    ["Pattern", <code key="cron">{task.cron}</code>],
    ["Next run", task.next_run_at ? <RelativeTime key="next" at={task.next_run_at} /> : "none, disabled"],
    ["Last run", <RelativeTime key="last" at={task.last_run_at} />],
    ["Overlap", findWord(OVERLAP_WORDS, task.overlap)],
    ["Missed", findWord(CATCH_UP_WORDS, task.catch_up)],
    ...parameters.map(([name, value]): Fact => [name, formatParameter(value)]),
  ];
  return (
    <Panel title="Schedule" note={task.cron_note}>
      <FactList facts={facts} />
    </Panel>
  );
}

function WebhookPanel({ task }: { task: TaskOut }) {
  const isOwn = useOwnTasks()(task);
  const [isShown, setShown] = useState(false);
  const webhooks = task.webhooks ?? [];
  if (webhooks.length === 0) return null;
  return (
    <Panel title="Webhooks" note="Called when a job has ended, signed as Standard Webhooks.">
      <ul className="plain stack tight">
        {webhooks.map((webhook, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: two webhooks may have one address
          <li key={place} className="row">
            <Tag>{webhook.method}</Tag>
            <code className="tasks-address">{webhook.url}</code>
          </li>
        ))}
      </ul>
      {task.webhook_secret ? (
        <p className="small soft">
          Signed with <code>{task.webhook_secret}</code>.
        </p>
      ) : (
        isOwn && (
          <div>
            <Button small icon="key" onClick={() => setShown(true)}>
              Show signing secret
            </Button>
          </div>
        )
      )}
      {isShown && <WebhookSecretDialog task={task} onClose={() => setShown(false)} />}
    </Panel>
  );
}

function AboutPanel({ task }: { task: TaskOut }) {
  const servers = [
    ...(task.mcp_servers ?? []).map((server) => server.name),
    ...(task.mcp_stdio_servers ?? []),
  ];
  const labels = Object.entries(task.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  const { wall_s, steps, tool_calls, tokens } = task.budgets;
  const facts: Fact[] = [
    [
      "Attachments",
      (task.multimedia_sources ?? []).map((source) => `${source.type}: ${source.url}`).join(", "),
    ],
    ["MCP servers", servers.join(", ")],
    ["Node labels", labels.join(", ")],
    ["Time limit", wall_s ? duration(wall_s) : null],
    ["Model calls", steps ? `at most ${formatCount(steps)}` : null],
    ["Tool calls", tool_calls == null ? null : `at most ${formatCount(tool_calls)}`],
    ["Tokens", tokens ? `at most ${formatCount(tokens)}` : null],
    ["Created", <RelativeTime key="created" at={task.created_at} />],
    ["Created by", task.created_by],
    ["Changed", <RelativeTime key="changed" at={task.updated_at} />],
    ["Id", <code key="id">{task.id}</code>],
  ];
  return (
    <Panel title="Details">
      <FactList facts={facts} />
    </Panel>
  );
}
