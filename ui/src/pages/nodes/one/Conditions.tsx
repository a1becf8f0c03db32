// The conditions of a node, each with its time and reason, and the facts of the machine.
import type { NodeOut } from "@/api/schema";
import { Icon } from "@/kit/icons";
import { Panel } from "@/kit/Panel";
import { RelativeTime } from "@/kit/RelativeTime";
import { isAgent } from "@/pages/nodes/fleetSummary";
import { conditionWord, describeThreads } from "@/pages/nodes/one/words";
import { bytes, UNKNOWN } from "@/text/format";

export function Conditions({ node }: { node: NodeOut }) {
  return (
    <Panel title="Conditions">
      <ul className="plain node-conditions">
        {node.conditions.map((fact) => {
          const { text, tone } = conditionWord(fact);
          return (
            <li key={fact.name}>
              <span className={`node-mark ${tone}`}>
                <Icon name={tone === "good" ? "check" : tone === "still" ? "info" : "warn"} size={14} />
              </span>
              <div>
                <strong>{text}</strong>
                <p className="small soft">
                  {fact.reason}
                  {fact.since && (
                    <>
                      {" · "}
                      <RelativeTime at={fact.since} />
                    </>
                  )}
                </p>
              </div>
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}

export function Machine({ node }: { node: NodeOut }) {
  const facts: [string, string][] = [
    ...(node.gpus ?? []).map((gpu, place): [string, string] => [
      `GPU ${place}`,
      `${gpu.name || gpu.vendor}${gpu.total_vram && !isAgent(node) ? `, ${bytes(gpu.total_vram)}` : ""}`,
    ]),
    [
      "Processor",
      node.cpu_cores ? `${node.cpu_cores} cores, ${node.cpu_threads ?? UNKNOWN} threads` : UNKNOWN,
    ],
    ...(isAgent(node) ? [] : [["Threads", describeThreads(node)] as [string, string]]),
    ["System", [node.system, node.architecture].filter(Boolean).join(", ") || UNKNOWN],
    ["Memory", `${bytes(node.total_ram)}${node.unified_memory ? ", shared with the GPU" : ""}`],
    ["Address", node.http_address || node.address || UNKNOWN],
    ["Corral", node.version || UNKNOWN],
    ["Id", node.id],
  ];
  return (
    <Panel title="Machine">
      <dl className="node-pairs">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        <div>
          <dt>Joined</dt>
          <dd>
            <RelativeTime at={node.created_at} />
          </dd>
        </div>
        <div>
          <dt>Last heartbeat</dt>
          <dd>
            <RelativeTime at={node.last_heartbeat} />
          </dd>
        </div>
      </dl>
    </Panel>
  );
}
