// The page of one job: its state, result, trace, parameters, and the delivery of its webhooks.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import type { JobOut, JobWebhookOut, RunOut } from "@/api/schema";
import { AnswerText } from "@/kit/AnswerText";
import { type Fact, FactList } from "@/kit/FactList";
import { PageHeader, Panel } from "@/kit/Panel";
import { RecordView } from "@/kit/RecordView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import { ApprovalForm } from "@/pages/runs/ApprovalForm";
import { EndButtons } from "@/pages/runs/EndButtons";
import { runQuery } from "@/pages/runs/queries";
import { NodeName } from "@/pages/runs/RunRow";
import { RunTrace } from "@/pages/runs/RunTrace";
import { useSeconds } from "@/pages/runs/useSeconds";
import { formatParameter } from "@/pages/tasks/parameters";
import { cancelJob, deleteJob, jobQuery } from "@/pages/tasks/queries";
import { useCaller } from "@/pages/tasks/useCaller";
import { usePageName } from "@/shell/pageName";
import { bytes, formatCount, formatMoment } from "@/text/format";
import { describeJobTime, isOpenJob, jobWord, webhookWord } from "@/text/job";
import { describeCut, describeTrigger, describeUsage, listPendingApprovals } from "@/text/run";
import "@/pages/runs/runs.css";
import "@/pages/tasks/tasks.css";

export default function JobPage() {
  const { job: id } = useParams({ from: "/tasks/jobs/$job" });
  const { isAdmin } = useCaller();
  const query = useQuery(jobQuery(id, isAdmin));
  usePageName(query.data && `Job of ${query.data.task}`);
  return (
    <RecordView query={query} back={<Link to="/tasks/jobs">All jobs</Link>} gone="This job was deleted.">
      {(job) => <JobBody key={job.id} job={job} />}
    </RecordView>
  );
}

function JobBody({ job }: { job: JobOut }) {
  const { isAdmin } = useCaller();
  const cache = useQueryClient();
  const { data: run } = useQuery(runQuery(job.id, isAdmin));
  const pending = run ? listPendingApprovals(run) : [];
  // The stream of the trace refreshes the run; when its state has changed, so has the job.
  const state = run?.state;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `state` is what it waits for
  useEffect(() => {
    void cache.invalidateQueries({ queryKey: jobQuery(job.id, isAdmin).queryKey });
  }, [cache, job.id, isAdmin, state]);
  return (
    <>
      <JobHeader job={job} />
      <div className="runs-one">
        <div className="stack">
          {run && pending.length > 0 && (
            <Panel title="Waiting for approval">
              {pending.map((approval) => (
                <ApprovalForm key={approval.call_id} run={run} approval={approval} />
              ))}
            </Panel>
          )}
          {job.result && (
            <Panel title="Result" note={run && describeCut(run.reason)}>
              <AnswerText text={job.result} />
            </Panel>
          )}
          {run && <RunTrace run={run} />}
          <Webhooks webhooks={job.webhooks ?? []} isOpen={isOpenJob(job.status)} />
        </div>
        <div className="stack">
          <Parameters job={job} />
          <Details job={job} run={run} />
        </div>
      </div>
    </>
  );
}

function JobHeader({ job }: { job: JobOut }) {
  const { isAdmin } = useCaller();
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  const { text, tone } = jobWord(job.status);
  const cancel = async () => {
    await cancelJob(job.id, isAdmin);
    await cache.invalidateQueries({ queryKey: ["runs"] });
  };
  const remove = async () => {
    await deleteJob(job.id, isAdmin);
    toast(`Deleted the job of ${job.task}.`);
    await navigate({ to: "/tasks/jobs" });
    cache.removeQueries({ queryKey: jobQuery(job.id, isAdmin).queryKey });
    cache.removeQueries({ queryKey: runQuery(job.id, isAdmin).queryKey });
    void cache.invalidateQueries({ queryKey: ["runs"] });
  };
  const isRedundant = job.message.toLowerCase() === `${text}.`;
  return (
    <PageHeader
      title={`Job of ${job.task}`}
      note={
        <>
          <p className="row">
            <Pill tone={tone}>{text}</Pill>
            <Tag>{job.model}</Tag>
            <span aria-live="polite">{isRedundant ? "" : job.message}</span>
          </p>
          {job.error && job.error !== job.message && <p className="bad-text runs-fault">{job.error}</p>}
        </>
      }
    >
      <EndButtons
        noun="job"
        subject={job.task}
        isOpen={isOpenJob(job.status)}
        onCancel={cancel}
        onDelete={remove}
      />
    </PageHeader>
  );
}

function Parameters({ job }: { job: JobOut }) {
  const parameters = Object.entries(job.parameters ?? {});
  const attachments = job.attachments ?? [];
  if (parameters.length === 0 && attachments.length === 0) return null;
  return (
    <Panel title="Parameters">
      {parameters.length > 0 && (
        <dl className="tasks-values">
          {parameters.map(([name, value]) => (
            <div key={name}>
              <dt>
                <code>{name}</code>
              </dt>
              <dd>{formatParameter(value)}</dd>
            </div>
          ))}
        </dl>
      )}
      {attachments.length > 0 && (
        <ul className="plain stack tight" aria-label="Attachments">
          {attachments.map((one, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: attachments of a job do not change
            <li key={place} className="row">
              <Tag>{one.kind}</Tag>
              <span>{one.name || one.type}</span>
              <span className="small faint">{bytes(one.size_bytes)}</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Details({ job, run }: { job: JobOut; run: RunOut | undefined }) {
  const time = describeJobTime(job, useSeconds(isOpenJob(job.status)));
  const facts: Fact[] = [
    [
      "Task",
      job.task_id ? (
        <Link key="task" to="/tasks/$task" params={{ task: job.task_id }}>
          {job.task}
        </Link>
      ) : (
        `${job.task} (deleted)`
      ),
    ],
    ["Model", job.model],
    ["Owner", job.owner_name],
    ["Started by", describeTrigger(job.triggered_by)],
    ["Node", job.node && <NodeName name={job.node} />],
    ["Attempts", job.attempt > 1 ? formatCount(job.attempt) : null],
    ["Requested", <RelativeTime key="requested" at={job.created_at} />],
    ["Started", job.started_at && formatMoment(job.started_at)],
    ["Ended", job.completed_at && formatMoment(job.completed_at)],
    ["Duration", time],
    ["Used", run && describeUsage(run.usage)],
    ["Error code", job.error_code && <code key="code">{job.error_code}</code>],
    ["Id", <code key="id">{job.id}</code>],
  ];
  return (
    <Panel title="Details">
      <FactList facts={facts} />
    </Panel>
  );
}

function Webhooks({ webhooks, isOpen }: { webhooks: JobWebhookOut[]; isOpen: boolean }) {
  if (webhooks.length === 0) return null;
  return (
    <Panel title="Webhooks" note={isOpen ? "They are sent when the job has ended." : null}>
      <ul className="plain tasks-deliveries">
        {webhooks.map((webhook, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: webhooks of a job do not change
          <li key={place} className="stack tight">
            <span className="row">
              <Pill tone={webhookWord(webhook).tone}>{webhookWord(webhook).text}</Pill>
              <code className="tasks-address">{webhook.url}</code>
            </span>
            <span className="small soft">{describeDelivery(webhook)}</span>
            {webhook.last_error && webhook.state !== "delivered" && (
              <span className="small bad-text runs-fault">{webhook.last_error}</span>
            )}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function describeDelivery(webhook: JobWebhookOut): string {
  const tries = webhook.attempts === 1 ? "1 attempt" : `${webhook.attempts} attempts`;
  const status = webhook.last_status ? `, last status ${webhook.last_status}` : "";
  const when = webhook.delivered_at ? `, delivered ${formatMoment(webhook.delivered_at)}` : "";
  return webhook.attempts === 0 ? "Not sent yet" : `${tries}${status}${when}`;
}
