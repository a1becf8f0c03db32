// Lists for each node whether a model would fit there, and why not.
import { Icon } from "@/kit/icons";
import { describeFits, type NodeFit } from "@/pages/models/fit";

const SHOWN_MAX = 6;

export function FitList({ fits }: { fits: readonly NodeFit[] }) {
  const rest = fits.slice(SHOWN_MAX);
  return (
    <section className="models-fits" aria-label="Compatible nodes">
      <p>
        <strong>{describeFits(fits)}</strong>
      </p>
      <FitRows fits={fits.slice(0, SHOWN_MAX)} />
      {rest.length > 0 && (
        <details>
          <summary className="small">{rest.length} more nodes</summary>
          <FitRows fits={rest} />
        </details>
      )}
    </section>
  );
}

function FitRows({ fits }: { fits: readonly NodeFit[] }) {
  return (
    <ul className="plain small">
      {fits.map((fit) => (
        <li key={fit.node} className={fit.fits ? "models-fit" : "models-fit not"}>
          <Icon name={fit.fits ? "check" : "cross"} />
          <span className="number">{fit.node}</span>
          <span className="soft">
            <span className="unseen">{fit.fits ? "Fits. " : "Does not fit. "}</span>
            {fit.sentence}
          </span>
        </li>
      ))}
    </ul>
  );
}
