// Links between the pages of one section, as tabs above them.
import { Link, type LinkProps } from "@tanstack/react-router";

const EXACT = { exact: true, includeSearch: false } as const;

interface SectionTabsProps {
  /** What the navigation is about, for those who do not see it: "Agents and skills". */
  label: string;
  pages: readonly (readonly [to: NonNullable<LinkProps["to"]>, name: string])[];
}

export function SectionTabs({ label, pages }: SectionTabsProps) {
  return (
    <nav className="tabs section-tabs" aria-label={label}>
      {pages.map(([to, name]) => (
        <Link key={to} to={to} activeOptions={EXACT}>
          {name}
        </Link>
      ))}
    </nav>
  );
}
