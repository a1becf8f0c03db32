// Tiles with the capacity of the fleet and how much of it is used.
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Meter } from "@/kit/measures";
import { describeCapacity, type ResourceAmount, statusWords } from "@/pages/nodes/fleetSummary";
import type { FleetNumbers } from "@/pages/overview/fleetNumbers";
import { bytesOf, formatCount, plural } from "@/text/format";

export function FleetTiles({ fleet }: { fleet: FleetNumbers }) {
  const { nodes, replicas } = fleet;
  const healthy = nodes.byStatus.healthy ?? 0;
  return (
    <section className="overview-numbers" aria-label="The fleet in numbers">
      <Tile
        to="/nodes"
        name="Nodes"
        value={healthy === nodes.all ? formatCount(nodes.all) : `${healthy} of ${nodes.all}`}
        note={nodes.all === 0 ? "none yet" : statusWords(nodes).join(", ")}
      />
      <Tile
        to="/models"
        name="Replicas"
        value={
          replicas.loaded === replicas.all
            ? formatCount(replicas.all)
            : `${replicas.loaded} of ${replicas.all}`
        }
        note={replicas.all === 0 ? "none loaded" : `loaded, of ${plural(replicas.models, "model")}`}
      />
      <Tile
        to="/usage"
        name="In flight"
        value={formatCount(fleet.inFlight)}
        note={fleet.waiting > 0 ? `${fleet.waiting} queued` : "none queued"}
      />
      <div className="panel overview-meters">
        <Memory name="GPU memory" amount={nodes.vram} absent="No reachable GPU" />
        <Memory name="Memory" amount={nodes.ram} absent="Unknown" />
        <div className="row apart small">
          <span className="soft">Processor threads</span>
          <span className="number">{nodes.threads || "–"}</span>
        </div>
        {nodes.total > 0 && <p className="small faint">Memory {describeCapacity(nodes)}.</p>}
      </div>
    </section>
  );
}

interface TileProps {
  to: "/nodes" | "/models" | "/usage";
  name: string;
  value: ReactNode;
  note: string;
}

function Tile({ to, name, value, note }: TileProps) {
  return (
    <Link to={to} className="panel overview-fact">
      <span className="soft small">{name}</span>
      <span className="overview-value">{value}</span>
      <span className="small faint">{note}</span>
    </Link>
  );
}

function Memory({ name, amount, absent }: { name: string; amount: ResourceAmount; absent: string }) {
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
