// The two pages about work: operations of the cluster, and runs of people. A caller who may not operate has runs only.
import { SectionTabs } from "@/kit/SectionTabs";
import { useHasScope } from "@/shell/me";

const PAGES = [
  ["/operations", "Operations"],
  ["/runs", "Runs"],
] as const;

export function OperationTabs() {
  return useHasScope("operate") ? <SectionTabs label="Operations and runs" pages={PAGES} /> : null;
}
