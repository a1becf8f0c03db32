// The nodes of an operation, grouped by wave if it has several.
import type { OperationDetailOut, TargetDetailOut } from "@/api/schema";
import { Progress } from "@/kit/measures";
import { Pill, type Tone } from "@/kit/status";
import { groupWaves, sortFailedFirst, type Wave } from "@/pages/backends/targets";
import { bytesOf, plural } from "@/text/format";
import { targetWord } from "@/text/operation";
import { STATE_WORDS } from "@/text/stateWords.gen";

const WAVE_WORDS: Record<Wave["state"], [string, Tone]> = {
  waiting: [STATE_WORDS.target.queued, "still"],
  busy: [STATE_WORDS.target.working, "busy"],
  done: [STATE_WORDS.target.success, "good"],
  failed: [STATE_WORDS.target.error, "bad"],
  stopped: [STATE_WORDS.target.skipped, "still"],
};

interface TargetListProps {
  operation: OperationDetailOut;
  /** The node that the dialog is about: the others are collapsed. */
  only?: string | undefined;
}

export function TargetList({ operation, only }: TargetListProps) {
  const all = operation.nodes ?? [];
  const mine = all.filter((target) => target.node_id === only);
  if (mine.length === 0 || all.length === 1) return <AllTargets targets={all} />;
  return (
    <>
      <Members targets={mine} />
      <details>
        <summary className="small">All {plural(all.length, "node")} of this operation</summary>
        <AllTargets targets={all} />
      </details>
    </>
  );
}

function AllTargets({ targets }: { targets: readonly TargetDetailOut[] }) {
  const waves = groupWaves(targets);
  if (waves.length <= 1) return <Members targets={sortFailedFirst(targets)} />;
  return (
    <ol className="plain backends-waves">
      {waves.map((wave) => {
        const [word, tone] = WAVE_WORDS[wave.state];
        return (
          <li key={wave.number} className={`backends-wave is-${wave.state}`}>
            <div className="row apart">
              <strong className="small">
                Wave {wave.number + 1} of {waves.length}
              </strong>
              <Pill tone={tone}>{word}</Pill>
            </div>
            <Members targets={sortFailedFirst(wave.targets)} />
          </li>
        );
      })}
    </ol>
  );
}

function Members({ targets }: { targets: readonly TargetDetailOut[] }) {
  return (
    <ul className="plain backends-targets">
      {targets.map((target) => (
        <Member key={target.node_id} target={target} />
      ))}
    </ul>
  );
}

function Member({ target }: { target: TargetDetailOut }) {
  const { text, tone } = targetWord(target);
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
          <Pill tone={tone}>{text}</Pill>
        </span>
      </div>
      {isBusy && <Progress value={target.percentage || null} label={`Progress on ${target.node_name}`} />}
      {target.error && (
        <p className={target.state === "error" ? "small bad-text" : "small soft"}>
          {target.state === "queued" && "Retrying soon. "}
          {target.error}
        </p>
      )}
    </li>
  );
}
