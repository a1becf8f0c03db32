// The curve of a training: the loss of each step, and that of the examples held out.
import { useQuery } from "@tanstack/react-query";
import type { FineTuneOut } from "@/api/schema";
import { curveQuery } from "@/pages/fine-tuning/queries";
import { layOutCurve, nameJob } from "@/pages/fine-tuning/words";

const WIDTH = 320;
const HEIGHT = 64;

export function LossCurve({ job }: { job: FineTuneOut }) {
  const points = useQuery(curveQuery(job.id, job.current_step ?? 0, job.status));
  const curve = points.data ? layOutCurve(points.data, WIDTH, HEIGHT) : null;
  if (curve === null) return null;
  return (
    <svg
      className="fine-tune-curve"
      viewBox={`-2 -2 ${WIDTH + 4} ${HEIGHT + 4}`}
      role="img"
      aria-label={`${nameJob(job)}: ${curve.label}`}
    >
      <polyline className="fine-tune-loss" points={curve.loss} />
      {curve.evaluation !== "" && <polyline className="fine-tune-evaluation" points={curve.evaluation} />}
    </svg>
  );
}
