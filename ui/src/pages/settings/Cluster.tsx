// The control plane: frontends, leader, versions, PostgreSQL and NATS.
import { useQuery } from "@tanstack/react-query";
import { cluster } from "@/api/queries";
import type { ClusterOut, FrontendOut } from "@/api/schema";
import { Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill, Tag } from "@/kit/status";
import { listVersions } from "@/pages/settings/settingsLists";
import { joinWords } from "@/text/format";

export function Cluster() {
  // Its times change without an event, so it is also read when the tab is opened.
  const query = useQuery({ ...cluster, staleTime: 0 });
  return (
    <QueryView query={query}>
      {(data) => (
        <div className="stack">
          <ClusterParts data={data} />
          <Panel
            title="Frontends"
            note="Every frontend serves all requests. The leader runs the background work."
          >
            <Versions data={data} />
            {data.frontends.length === 0 ? (
              <p className="soft">The list is unavailable while PostgreSQL is unreachable.</p>
            ) : (
              <ul className="plain settings-list">
                {data.frontends.map((frontend) => (
                  <Frontend key={frontend.id} frontend={frontend} isHere={frontend.id === data.answered_by} />
                ))}
              </ul>
            )}
          </Panel>
        </div>
      )}
    </QueryView>
  );
}

function ClusterParts({ data }: { data: ClusterOut }) {
  const leader = data.frontends.find((frontend) => frontend.leader);
  return (
    <div className="columns">
      <Panel title="PostgreSQL" note="Registry of the cluster.">
        <ClusterPart state={data.postgres.state} detail={data.postgres.detail ?? ""} />
      </Panel>
      <Panel title="NATS" note="Message bus between frontends and workers.">
        <ClusterPart state={data.nats.state} detail={data.nats.detail ?? ""} />
      </Panel>
      <Panel title="Leader" note="A new leader takes over within seconds.">
        {data.leader.holder ? (
          <div>
            <Pill tone="good">{leader ? `${leader.host}:${leader.port}` : data.leader.holder}</Pill>{" "}
            <span className="small soft">
              term {data.leader.term}, since <RelativeTime at={data.leader.acquired_at} />
            </span>
          </div>
        ) : (
          <div>
            <Pill tone="warn">no leader</Pill>
          </div>
        )}
      </Panel>
    </div>
  );
}

function ClusterPart({ state, detail }: { state: string; detail: string }) {
  return (
    <div>
      <Pill tone={state === "up" ? "good" : "bad"}>{state}</Pill> <span className="small soft">{detail}</span>
    </div>
  );
}

function Versions({ data }: { data: ClusterOut }) {
  const versions = listVersions(data);
  if (versions.length < 2) return null;
  return (
    <p>
      <Pill tone="warn">different versions</Pill> Frontends run {joinWords(versions)}. Finish the upgrade so
      that all run one version.
    </p>
  );
}

function Frontend({ frontend, isHere }: { frontend: FrontendOut; isHere: boolean }) {
  return (
    <li className="settings-row">
      <div>
        <strong>
          {frontend.host}:{frontend.port}
        </strong>
        <p className="small faint settings-id">
          {frontend.id}, process {frontend.pid}
        </p>
      </div>
      <div className="row">
        <Pill tone={frontend.alive ? "good" : "still"}>{frontend.alive ? "alive" : "gone"}</Pill>
        {frontend.leader && <Tag tone="good">leader</Tag>}
        {isHere && <Tag tone="busy">serving this page</Tag>}
      </div>
      <Tag>{frontend.version}</Tag>
      <div className="small soft">
        since <RelativeTime at={frontend.started_at} />, seen <RelativeTime at={frontend.seen_at} />
      </div>
    </li>
  );
}
