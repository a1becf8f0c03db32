// The nodes of an operation; in waves, if it goes in waves.
import type { OperationInFull, TargetInFull } from "@/api/schema";
import { Progress } from "@/kit/measures";
import { Pill, type Tone } from "@/kit/status";
import { said, type Wave, wavesOf } from "@/pages/backends/targets";
import { bytesOf } from "@/text/format";

const WAVE_SAID: Record<Wave["state"], [string, Tone]> = {
  waiting: ["waits", "still"],
  busy: ["under way", "busy"],
  done: ["done", "good"],
  failed: ["failed", "bad"],
  stopped: ["not begun", "still"],
};

export function TargetList({ operation }: { operation: OperationInFull }) {
  const waves = wavesOf(operation.nodes ?? []);
  if (waves.length <= 1) return <Members targets={operation.nodes ?? []} />;
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
            <Members targets={wave.targets} />
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
      {isBusy && <Progress value={target.percentage} label={`Progress on ${target.node_name}`} />}
      {target.error && (
        <p className={target.state === "error" ? "small bad-text" : "small soft"}>{target.error}</p>
      )}
    </li>
  );
}
