// The pages about work in the background: tasks, the jobs that they became, batches, and the files of both.
import { SectionTabs } from "@/kit/SectionTabs";

const PAGES = [
  ["/tasks", "Tasks"],
  ["/tasks/jobs", "Jobs"],
  ["/tasks/batches", "Batches"],
  ["/tasks/files", "Files"],
] as const;

export const TaskTabs = () => <SectionTabs label="Tasks and batches" pages={PAGES} />;
