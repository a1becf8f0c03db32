// The models with the most requests.
import { Link } from "@tanstack/react-router";
import type { LiveModelOut, LiveOut } from "@/api/schema";
import { EmptyState, Panel } from "@/kit/Panel";
import { rightColumn, Table } from "@/kit/Table";
import { pickBusiest, toFleetPace } from "@/pages/overview/fleetNumbers";
import { duration, formatCount, plural } from "@/text/format";

const COLUMNS = [
  "Model",
  rightColumn("Replicas"),
  rightColumn("In flight"),
  rightColumn("Queued"),
  rightColumn("Requests/s"),
  rightColumn("Tokens/s"),
  rightColumn("First token"),
  rightColumn("Errors/s"),
];

const SHOWN = 8;

export function BusiestModels({ live }: { live: LiveOut }) {
  const models = pickBusiest(live.models);
  const rest = models.length - SHOWN;
  const idle = live.idle_models ?? 0;
  if (models.length === 0) {
    return (
      <Panel title="Busiest models">
        <EmptyState title="No models are loaded.">
          {idle > 0 ? `${plural(idle, "model loads", "models load")} on the first request. ` : ""}
          <Link to="/models">See the models</Link>
        </EmptyState>
      </Panel>
    );
  }
  return (
    <Panel
      title="Busiest models"
      note={idle > 0 && `${plural(idle, "more loads", "more load")} on the first request.`}
    >
      <Table columns={COLUMNS}>
        <tbody>
          {models.slice(0, SHOWN).map((model) => (
            <ModelRow key={model.name} model={model} />
          ))}
        </tbody>
      </Table>
      {rest > 0 && <Link to="/models">{plural(rest, "more model")}</Link>}
    </Panel>
  );
}

function ModelRow({ model }: { model: LiveModelOut }) {
  const now = toFleetPace(model.pace);
  const loaded = model.replicas.filter((replica) => replica.state === "loaded").length;
  return (
    <tr>
      <td>
        <Link to="/models/$model" params={{ model: model.name }}>
          {model.name}
        </Link>
      </td>
      <td className="right number">
        {loaded === model.replicas.length ? loaded : `${loaded} of ${model.replicas.length}`}
      </td>
      <td className="right number">{model.in_flight}</td>
      <td className={model.waiting > 0 ? "right number overview-waits" : "right number"}>{model.waiting}</td>
      <td className="right number">{formatCount(now.requests)}</td>
      <td className="right number">{formatCount(now.tokens)}</td>
      <td className="right number">{duration(now.first50)}</td>
      <td className={now.errors > 0 ? "right number bad-text" : "right number"}>{formatCount(now.errors)}</td>
    </tr>
  );
}
