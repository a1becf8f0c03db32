// What there is, and how much of it is used.
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Meter } from "@/kit/measures";
import { type Amount, statusWords, thereWords } from "@/pages/nodes/tally";
import type { Fleet } from "@/pages/overview/fleet";
import { bytesOf, count, plural } from "@/text/format";

export function Numbers({ fleet }: { fleet: Fleet }) {
  const { nodes, replicas } = fleet;
  const healthy = nodes.byStatus.healthy ?? 0;
  return (
    <section className="overview-numbers" aria-label="The fleet in numbers">
      <Fact
        to="/nodes"
        name="Nodes"
        value={healthy === nodes.all ? count(nodes.all) : `${healthy} of ${nodes.all}`}
        note={nodes.all === 0 ? "none yet" : statusWords(nodes).join(", ")}
      />
      <Fact
        to="/models"
        name="Replicas"
        value={
          replicas.loaded === replicas.all ? count(replicas.all) : `${replicas.loaded} of ${replicas.all}`
        }
        note={replicas.all === 0 ? "none loaded" : `loaded, of ${plural(replicas.models, "model")}`}
      />
      <Fact
        to="/usage"
        name="In flight"
        value={count(fleet.inFlight)}
        note={fleet.waiting > 0 ? `${fleet.waiting} waiting` : "nobody waits"}
      />
      <div className="panel overview-meters">
        <Memory name="GPU memory" amount={nodes.vram} absent="No GPU can be reached" />
        <Memory name="Memory" amount={nodes.ram} absent="Not known" />
        <div className="row apart small">
          <span className="soft">Processor threads</span>
          <span className="number">{nodes.threads || "–"}</span>
        </div>
        {nodes.there > 0 && <p className="small faint">Counted {thereWords(nodes)}.</p>}
      </div>
    </section>
  );
}

interface FactProps {
  to: "/nodes" | "/models" | "/usage";
  name: string;
  value: ReactNode;
  note: string;
}

function Fact({ to, name, value, note }: FactProps) {
  return (
    <Link to={to} className="panel overview-fact">
      <span className="soft small">{name}</span>
      <span className="overview-value">{value}</span>
      <span className="small faint">{note}</span>
    </Link>
  );
}

function Memory({ name, amount, absent }: { name: string; amount: Amount; absent: string }) {
  const { used, total, reserved } = amount;
  if (total == null) {
    return (
      <div className="row apart small">
        <span className="soft">{name}</span>
        <span className="faint">{absent}</span>
      </div>
    );
  }
  return <Meter label={name} used={used} total={total} reserved={reserved} text={bytesOf(used, total)} />;
}
