// The pages about work in the background: tasks, the jobs that they became, batches, and the files of both.
import { Link } from "@tanstack/react-router";

const EXACT = { exact: true, includeSearch: false } as const;

export function TaskTabs() {
  return (
    <nav className="tabs section-tabs" aria-label="Tasks and batches">
      <Link to="/tasks" activeOptions={EXACT}>
        Tasks
      </Link>
      <Link to="/tasks/jobs" activeOptions={EXACT}>
        Jobs
      </Link>
      <Link to="/tasks/batches" activeOptions={EXACT}>
        Batches
      </Link>
      <Link to="/tasks/files" activeOptions={EXACT}>
        Files
      </Link>
    </nav>
  );
}
