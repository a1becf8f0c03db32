// The nodes of an operation; in waves, if it goes in waves.
import type { OperationInFull, TargetInFull } from "@/api/schema";
import { Progress } from "@/kit/measures";
import { Pill, type Tone } from "@/kit/status";
import { failedFirst, said, type Wave, wavesOf } from "@/pages/backends/targets";
import { bytesOf, plural } from "@/text/format";

const WAVE_SAID: Record<Wave["state"], [string, Tone]> = {
  waiting: ["waits", "still"],
  busy: ["under way", "busy"],
  done: ["done", "good"],
  failed: ["failed", "bad"],
  stopped: ["not begun", "still"],
};

interface TargetListProps {
  operation: OperationInFull;
  /** The node that somebody looks at: the others are folded away. */
  only?: string | undefined;
}

export function TargetList({ operation, only }: TargetListProps) {
  const all = operation.nodes ?? [];
  const mine = all.filter((target) => target.node_id === only);
  if (mine.length === 0 || all.length === 1) return <All targets={all} />;
  return (
    <>
      <Members targets={mine} />
      <details>
        <summary className="small">All {plural(all.length, "node")} of this operation</summary>
        <All targets={all} />
      </details>
    </>
  );
}

function All({ targets }: { targets: readonly TargetInFull[] }) {
  const waves = wavesOf(targets);
  if (waves.length <= 1) return <Members targets={failedFirst(targets)} />;
  return (
    <ol className="plain backends-waves">
      {waves.map((wave) => {
        const [word, tone] = WAVE_SAID[wave.state];
        return (
          <li key={wave.number} className={`backends-wave is-${wave.state}`}>
            <div className="row apart">
              <strong className="small">
                Wave {wave.number + 1} of {waves.length}
              </strong>
              <Pill tone={tone}>{word}</Pill>
            </div>
            <Members targets={failedFirst(wave.targets)} />
          </li>
        );
      })}
    </ol>
  );
}

function Members({ targets }: { targets: readonly TargetInFull[] }) {
  return (
    <ul className="plain backends-targets">
      {targets.map((target) => (
        <Member key={target.node_id} target={target} />
      ))}
    </ul>
  );
}

function Member({ target }: { target: TargetInFull }) {
  const { word, tone } = said(target);
  const isBusy = target.state === "working";
  const way = [target.previous_version, target.version].filter(Boolean).join(" → ");
  return (
    <li data-node={target.node_name} data-state={target.state}>
      <div className="row apart">
        <span className="cut">
          {target.node_name} {way && <span className="number faint">{way}</span>}
        </span>
        <span className="row">
          {isBusy && target.current != null && (
            <span className="number small soft">{bytesOf(target.current, target.total)}</span>
          )}
          <Pill tone={tone}>{word}</Pill>
        </span>
      </div>
      {isBusy && <Progress value={target.percentage || null} label={`Progress on ${target.node_name}`} />}
      {target.error && (
        <p className={target.state === "error" ? "small bad-text" : "small soft"}>
          {target.state === "queued" && "It is tried again soon. "}
          {target.error}
        </p>
      )}
    </li>
  );
}
