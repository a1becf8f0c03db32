// The history of jobs, newest first: of all tasks of the caller or of one, and for admins those of everybody.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "@/kit/Button";
import { SegmentedControl, Select } from "@/kit/fields";
import { EmptyState, PageHeader } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { JobRow } from "@/pages/tasks/JobRow";
import { JOBS_MAX, jobsQuery, tasksQuery } from "@/pages/tasks/queries";
import { JOB_STATUSES, type JobsSearch } from "@/pages/tasks/search";
import { TaskTabs } from "@/pages/tasks/TaskTabs";
import { useCaller } from "@/pages/tasks/useCaller";
import { usePageName } from "@/shell/pageName";
import { usePageSearch } from "@/shell/usePageSearch";
import { jobWord } from "@/text/job";
import "@/pages/runs/runs.css";
import "@/pages/tasks/tasks.css";

const ALL = "";
const PAGE = 50;

export default function Jobs() {
  const [filter, setSearch] = usePageSearch("/tasks/jobs");
  const caller = useCaller();
  const [limit, setLimit] = useState(PAGE);
  const query = useQuery(jobsQuery(filter, limit, caller));
  const isEverybody = caller.isAdmin && filter.owner === "everybody";
  usePageName("Jobs");
  return (
    <>
      <PageHeader title="Jobs" note="Each run of a task, with its result and its trace." />
      <TaskTabs />
      <div className="stack">
        <JobFilters filter={filter} onChange={setSearch} />
        <QueryView query={query}>
          {(jobs) =>
            jobs.length === 0 ? (
              <NoJobs
                isFiltered={Boolean(filter.status || filter.task)}
                onClear={() => setSearch({ status: undefined, task: undefined })}
              />
            ) : (
              <>
                <ul className="plain runs-list" aria-label="Jobs">
                  {jobs.map((job) => (
                    <JobRow key={job.id} job={job} withOwner={isEverybody} />
                  ))}
                </ul>
                <ListEnd count={jobs.length} limit={limit} isBusy={query.isFetching} onMore={setLimit} />
              </>
            )
          }
        </QueryView>
      </div>
    </>
  );
}

interface ListEndProps {
  count: number;
  limit: number;
  isBusy: boolean;
  onMore: (limit: number) => void;
}

function ListEnd({ count, limit, isBusy, onMore }: ListEndProps) {
  if (count < limit) return null;
  if (limit >= JOBS_MAX) {
    return (
      <p className="small soft">
        These are the newest {JOBS_MAX}. Filter for older ones, or see{" "}
        <Link to="/runs" search={{ kind: "task" }}>
          all runs of tasks
        </Link>
        .
      </p>
    );
  }
  return (
    <div>
      <Button small busy={isBusy} onClick={() => onMore(Math.min(limit + PAGE, JOBS_MAX))}>
        Load more
      </Button>
    </div>
  );
}

interface JobFiltersProps {
  filter: JobsSearch;
  onChange: (part: Partial<JobsSearch>) => void;
}

function JobFilters({ filter, onChange }: JobFiltersProps) {
  const { isAdmin, hasStream } = useCaller();
  const isEverybody = isAdmin && filter.owner === "everybody";
  const { data: tasks = [] } = useQuery(tasksQuery(isEverybody, hasStream));
  const isListed = !filter.task || tasks.some((task) => task.id === filter.task);
  return (
    <search className="runs-filters">
      {isAdmin && (
        <SegmentedControl
          label="Whose jobs"
          value={filter.owner ?? "mine"}
          options={[
            { value: "mine", label: "Mine" },
            { value: "everybody", label: "Everybody" },
          ]}
          // A task of another user is not among the caller's own.
          onChange={(owner) =>
            onChange({ owner: owner === "everybody" ? owner : undefined, task: undefined })
          }
        />
      )}
      <Select
        label="Status"
        value={filter.status ?? ALL}
        onChange={(event) => onChange({ status: JOB_STATUSES.find((one) => one === event.target.value) })}
      >
        <option value={ALL}>All</option>
        {JOB_STATUSES.map((status) => (
          <option key={status} value={status}>
            {jobWord(status).text}
          </option>
        ))}
      </Select>
      <Select
        label="Task"
        value={filter.task ?? ALL}
        onChange={(event) => onChange({ task: event.target.value || undefined })}
      >
        <option value={ALL}>All</option>
        {!isListed && <option value={filter.task}>{filter.task}</option>}
        {tasks.map((task) => (
          <option key={task.id} value={task.id}>
            {task.name}
          </option>
        ))}
      </Select>
    </search>
  );
}

function NoJobs({ isFiltered, onClear }: { isFiltered: boolean; onClear: () => void }) {
  if (isFiltered) {
    return (
      <EmptyState title="No jobs match this filter.">
        <Button small onClick={onClear}>
          Clear filters
        </Button>
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No jobs yet.">
      <p>
        A job is one run of a task. Run one from <Link to="/tasks">your tasks</Link>, or give it a schedule.
      </p>
    </EmptyState>
  );
}
