// Where it would fit, node by node, and why not elsewhere.
import { Icon } from "@/kit/icons";
import { type Fit, verdict } from "@/pages/models/fit";

const SHOWN_MAX = 6;

export function Fits({ fits }: { fits: readonly Fit[] }) {
  const rest = fits.slice(SHOWN_MAX);
  return (
    <section className="models-fits" aria-label="Where it fits">
      <p>
        <strong>{verdict(fits)}</strong>
      </p>
      <Rows fits={fits.slice(0, SHOWN_MAX)} />
      {rest.length > 0 && (
        <details>
          <summary className="small">{rest.length} more nodes</summary>
          <Rows fits={rest} />
        </details>
      )}
    </section>
  );
}

function Rows({ fits }: { fits: readonly Fit[] }) {
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
