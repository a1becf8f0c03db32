// The control plane: frontends, who leads, versions, and the two things that all stand on.
import { useQuery } from "@tanstack/react-query";
import { cluster } from "@/api/queries";
import type { ClusterOut, FrontendOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Answered } from "@/kit/Answered";
import { Panel } from "@/kit/Panel";
import { Pill, Tag } from "@/kit/status";
import { versionsOf } from "@/pages/settings/listing";
import { list } from "@/text/format";

export function Cluster() {
  // Times in it move without an event: it is read when this is opened, too.
  const asked = useQuery({ ...cluster, staleTime: 0 });
  return (
    <Answered query={asked}>
      {(data) => (
        <div className="stack">
          <Parts data={data} />
          <Panel
            title="Frontends"
            note="Any of them answers everything. One leads: it decides what all of them then do."
          >
            <Versions data={data} />
            {data.frontends.length === 0 ? (
              <p className="soft">Nobody knows the others while PostgreSQL is away.</p>
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
    </Answered>
  );
}

function Parts({ data }: { data: ClusterOut }) {
  const leader = data.frontends.find((frontend) => frontend.leader);
  return (
    <div className="columns">
      <Panel title="PostgreSQL" note="Keeps what everybody has to agree on.">
        <Part state={data.postgres.state} detail={data.postgres.detail ?? ""} />
      </Panel>
      <Panel title="NATS" note="Carries news between frontends and workers.">
        <Part state={data.nats.state} detail={data.nats.detail ?? ""} />
      </Panel>
      <Panel title="Leader" note="Another follows within seconds if it is lost.">
        {data.leader.holder ? (
          <div>
            <Pill tone="good">{leader ? `${leader.host}:${leader.port}` : data.leader.holder}</Pill>{" "}
            <span className="small soft">
              term {data.leader.term}, since <Ago at={data.leader.acquired_at} />
            </span>
          </div>
        ) : (
          <div>
            <Pill tone="warn">nobody leads now</Pill>
          </div>
        )}
      </Panel>
    </div>
  );
}

function Part({ state, detail }: { state: string; detail: string }) {
  return (
    <div>
      <Pill tone={state === "up" ? "good" : "bad"}>{state}</Pill> <span className="small soft">{detail}</span>
    </div>
  );
}

function Versions({ data }: { data: ClusterOut }) {
  const versions = versionsOf(data);
  if (versions.length < 2) return null;
  return (
    <p>
      <Pill tone="warn">different versions</Pill> Frontends run {list(versions)}. Bring them to one when the
      upgrade is over.
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
        {frontend.leader && <Tag tone="good">leads</Tag>}
        {isHere && <Tag tone="busy">answers this page</Tag>}
      </div>
      <Tag>{frontend.version}</Tag>
      <div className="small soft">
        since <Ago at={frontend.started_at} />, seen <Ago at={frontend.seen_at} />
      </div>
    </li>
  );
}
