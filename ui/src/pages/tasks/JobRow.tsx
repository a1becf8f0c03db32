// One row of a list of jobs.
import { Link } from "@tanstack/react-router";
import type { JobOut } from "@/api/schema";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { NodeName } from "@/pages/runs/RunRow";
import { formatMoment } from "@/text/format";
import { describeJob, describeJobTime, describeWebhooks, jobWord } from "@/text/job";
import { describeTrigger } from "@/text/run";

interface JobRowProps {
  job: JobOut;
  withOwner?: boolean;
  /** Not on the page of the task itself: there a job is named by its time. */
  withTask?: boolean;
}

export function JobRow({ job, withOwner = false, withTask = true }: JobRowProps) {
  const { text, tone } = jobWord(job.status);
  const webhooks = job.webhooks ?? [];
  const facts = [describeJobTime(job), describeWebhooks(webhooks)].filter(Boolean).join(" · ");
  return (
    <li className="runs-row panel" aria-label={`${job.task}: ${text}`}>
      <div className="row runs-name">
        <Link to="/tasks/jobs/$job" params={{ job: job.id }}>
          {withTask ? job.task : formatMoment(job.created_at)}
        </Link>
        <Tag>{describeTrigger(job.triggered_by)}</Tag>
      </div>
      <div>
        <Pill tone={tone}>{text}</Pill>
      </div>
      <p className={`small runs-message ${tone === "bad" ? "bad-text" : "soft"}`}>{describeJob(job)}</p>
      <div className="small runs-facts">
        <span className="number">{facts}</span>
        <span className="faint">
          <RelativeTime at={job.created_at} />
          {withOwner && ` by ${job.owner_name}`}
          {job.node && (
            <>
              {" on "}
              <NodeName name={job.node} />
            </>
          )}
        </span>
      </div>
    </li>
  );
}
