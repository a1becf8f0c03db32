// A list beside the details of its selected entry. On a narrow screen one of the two is shown.
import type { ReactNode } from "react";
import { Button } from "@/kit/Button";

interface RailItem {
  id: string;
  name: string;
  note: string;
  marks: ReactNode;
}

interface FilterRailProps {
  label: string;
  groups: { title: string; items: RailItem[] }[];
  chosen: string | undefined;
  onChoose: (id: string | undefined) => void;
  children: ReactNode;
}

export function FilterRail({ label, groups, chosen, onChoose, children }: FilterRailProps) {
  return (
    <div className={chosen ? "backends-split chosen" : "backends-split"}>
      <nav className="backends-rail" aria-label={label}>
        {groups
          .filter((group) => group.items.length > 0)
          .map((group) => (
            <section key={group.title}>
              {groups.length > 1 && <h2 className="small soft">{group.title}</h2>}
              <ul className="plain">
                {group.items.map((item) => (
                  <li key={item.id}>
                    <button
                      type="button"
                      aria-current={item.id === chosen || undefined}
                      onClick={() => onChoose(item.id)}
                    >
                      <span className="row apart">
                        <strong className="cut">{item.name}</strong>
                        <span className="row">{item.marks}</span>
                      </span>
                      <span className="small soft cut">{item.note}</span>
                    </button>
                  </li>
                ))}
              </ul>
            </section>
          ))}
      </nav>
      <div className="backends-pane">
        <div className="backends-back">
          <Button small kind="quiet" onClick={() => onChoose(undefined)}>
            Back to the list
          </Button>
        </div>
        {children}
      </div>
    </div>
  );
}
