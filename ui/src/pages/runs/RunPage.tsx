// The page of one run: its state, what it waits for, its answer, and its trace as it grows.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import type { RunOut } from "@/api/schema";
import { AnswerText } from "@/kit/AnswerText";
import { type Fact, FactList } from "@/kit/FactList";
import { PageHeader, Panel } from "@/kit/Panel";
import { RecordView } from "@/kit/RecordView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { useToast } from "@/kit/toasts";
import { ApprovalForm } from "@/pages/runs/ApprovalForm";
import { EndButtons } from "@/pages/runs/EndButtons";
import { cancelRun, deleteRun, runQuery } from "@/pages/runs/queries";
import { NodeName } from "@/pages/runs/RunRow";
import { RunTrace } from "@/pages/runs/RunTrace";
import { useSeconds } from "@/pages/runs/useSeconds";
import { useHasScope } from "@/shell/me";
import { usePageName } from "@/shell/pageName";
import { formatCount, formatMoment } from "@/text/format";
import {
  describeCut,
  describeRunKind,
  describeRunTime,
  describeTrigger,
  isOpenRun,
  listPendingApprovals,
  nameRun,
  runWord,
} from "@/text/run";
import "@/pages/runs/runs.css";

export default function RunPage() {
  const { run: id } = useParams({ from: "/runs/$run" });
  const isAdmin = useHasScope("admin");
  const query = useQuery(runQuery(id, isAdmin));
  usePageName(query.data && nameRun(query.data));
  return (
    <RecordView query={query} back={<Link to="/runs">All runs</Link>} gone="This run was deleted.">
      {(run) => <RunBody key={run.id} run={run} />}
    </RecordView>
  );
}

function RunBody({ run }: { run: RunOut }) {
  const pending = listPendingApprovals(run);
  return (
    <>
      <RunHeader run={run} />
      <div className="runs-one">
        <div className="stack">
          {pending.length > 0 && (
            <Panel title="Waiting for approval">
              {pending.map((approval) => (
                <ApprovalForm key={approval.call_id} run={run} approval={approval} />
              ))}
            </Panel>
          )}
          {run.content && (
            <Panel title="Answer" note={describeCut(run.reason)}>
              <AnswerText text={run.content} />
            </Panel>
          )}
          <RunTrace run={run} />
        </div>
        <RunFacts run={run} />
      </div>
    </>
  );
}

function RunHeader({ run }: { run: RunOut }) {
  const isAdmin = useHasScope("admin");
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  const { text, tone } = runWord(run.state);
  const name = nameRun(run);
  const isOpen = isOpenRun(run.state);
  const cancel = async () => {
    cache.setQueryData(runQuery(run.id, isAdmin).queryKey, await cancelRun(run.id, isAdmin));
    void cache.invalidateQueries({ queryKey: ["runs"] });
  };
  const remove = async () => {
    await deleteRun(run.id, isAdmin);
    toast(`Deleted the run of ${name}.`);
    await navigate({ to: "/runs" });
    cache.removeQueries({ queryKey: runQuery(run.id, isAdmin).queryKey });
    void cache.invalidateQueries({ queryKey: ["runs"] });
  };
  return (
    <PageHeader
      title={name}
      note={
        <>
          <p className="row">
            <Pill tone={tone}>{text}</Pill>
            <Tag>{describeRunKind(run.kind)}</Tag>
            <span aria-live="polite">{isRedundant(run.message, text) ? "" : run.message}</span>
          </p>
          {run.error_text && run.error_text !== run.message && (
            <p className="bad-text runs-fault">{run.error_text}</p>
          )}
        </>
      }
    >
      <EndButtons noun="run" subject={name} isOpen={isOpen} onCancel={cancel} onDelete={remove} />
    </PageHeader>
  );
}

/** Whether the message says no more than the word beside it. */
const isRedundant = (message: string, word: string): boolean => message.toLowerCase() === `${word}.`;

function RunFacts({ run }: { run: RunOut }) {
  const time = describeRunTime(run, useSeconds(isOpenRun(run.state)));
  const { usage } = run;
  const facts: Fact[] = [
    [
      "Progress",
      run.kind === "batch" && (
        <Link key="batch" to="/tasks/batches">
          on the Batches page
        </Link>
      ),
    ],
    ["Owner", run.owner_name],
    ["Node", run.node && <NodeName name={run.node} />],
    ["Attempts", run.attempt > 1 ? formatCount(run.attempt) : null],
    [
      "Started by",
      run.parent_id ? (
        <Link key="parent" to="/runs/$run" params={{ run: run.parent_id }}>
          another run
        </Link>
      ) : (
        describeTrigger(run.trigger)
      ),
    ],
    ["Requested", <RelativeTime key="requested" at={run.created_at} />],
    ["Started", run.started_at && formatMoment(run.started_at)],
    ["Ended", run.finished_at && formatMoment(run.finished_at)],
    ["Duration", time],
    ["Model calls", formatCount(usage.steps)],
    ["Tool calls", formatCount(usage.tool_calls)],
    ["Tokens in", formatCount(usage.prompt_tokens)],
    ["Tokens out", formatCount(usage.completion_tokens)],
    ["Error code", run.error_code && <code key="code">{run.error_code}</code>],
    ["Id", <code key="id">{run.id}</code>],
  ];
  return (
    <Panel title="Details">
      <FactList facts={facts} />
    </Panel>
  );
}
