// Shows the diff of two texts as one list of removed and added lines.
import { useMemo } from "react";
import { lineDiff } from "@/pages/models/linediff";
import { plural } from "@/text/format";

export function Diff({ before, after, label }: { before: string; after: string; label: string }) {
  const lines = useMemo(() => lineDiff(before, after), [before, after]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways, and keyboards have to reach it
    <section className="models-diff" aria-label={label} tabIndex={0}>
      {lines.map((line, place) => {
        const key = place;
        if (line.kind === "left out")
          return (
            <div key={key} className="left-out">
              {plural(Number(line.text), "line")} the same
            </div>
          );
        const Element = ({ same: "div", gone: "del", new: "ins" } as const)[line.kind];
        return (
          <Element key={key}>
            <span className="place">{line.old}</span>
            <span className="place">{line.new}</span>
            <span className="mark" aria-hidden="true">
              {{ same: " ", gone: "−", new: "+" }[line.kind]}
            </span>
            <span>{line.text || " "}</span>
          </Element>
        );
      })}
    </section>
  );
}

/** The differences that the server reports, setting by setting. */
export function ChangedLines({ lines }: { lines: readonly string[] }) {
  return (
    <ul className="models-changes" aria-label="Changes">
      {lines.map((line) => (
        <li key={line}>
          <code>{line}</code>
        </li>
      ))}
    </ul>
  );
}
