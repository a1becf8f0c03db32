// The pages about agents, the skills that they read, and the repositories that skills come from.
import { SectionTabs } from "@/kit/SectionTabs";

const PAGES = [
  ["/agents", "Agents"],
  ["/agents/skills", "Skills"],
  ["/agents/git-repos", "Repositories"],
] as const;

export const AgentTabs = () => <SectionTabs label="Agents and skills" pages={PAGES} />;
