// The models with most to do.
import { Link } from "@tanstack/react-router";
import type { LiveModel, LiveOut } from "@/api/schema";
import { Empty, Panel } from "@/kit/Panel";
import { right, Table } from "@/kit/Table";
import { busiest, pace } from "@/pages/overview/fleet";
import { count, duration, plural } from "@/text/format";

const COLUMNS = [
  "Model",
  right("Replicas"),
  right("In flight"),
  right("Waiting"),
  right("Requests/s"),
  right("Tokens/s"),
  right("First token"),
  right("Errors/s"),
];

const SHOWN = 8;

export function Busiest({ live }: { live: LiveOut }) {
  const models = busiest(live.models);
  const rest = models.length - SHOWN;
  const idle = live.idle_models ?? 0;
  if (models.length === 0) {
    return (
      <Panel title="Busiest models">
        <Empty title="No model is loaded, and nobody asks for one.">
          {idle > 0 ? `${plural(idle, "model is", "models are")} loaded when asked for. ` : ""}
          <Link to="/models">See the models</Link>
        </Empty>
      </Panel>
    );
  }
  return (
    <Panel
      title="Busiest models"
      note={idle > 0 && `${plural(idle, "more is", "more are")} loaded when asked for.`}
    >
      <Table columns={COLUMNS}>
        <tbody>
          {models.slice(0, SHOWN).map((model) => (
            <Row key={model.name} model={model} />
          ))}
        </tbody>
      </Table>
      {rest > 0 && <Link to="/models">{plural(rest, "more model")}</Link>}
    </Panel>
  );
}

function Row({ model }: { model: LiveModel }) {
  const now = pace(model.pace);
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
      <td className="right number">{count(now.requests)}</td>
      <td className="right number">{count(now.tokens)}</td>
      <td className="right number">{duration(now.first50)}</td>
      <td className={now.errors > 0 ? "right number bad-text" : "right number"}>{count(now.errors)}</td>
    </tr>
  );
}
