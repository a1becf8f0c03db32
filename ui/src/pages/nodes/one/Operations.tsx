// What is done, and was done, on this node.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { operations } from "@/api/queries";
import type { NodeOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Answered } from "@/kit/Answered";
import { Empty, Panel } from "@/kit/Panel";
import { Pill } from "@/kit/status";
import { recordOf } from "@/pages/nodes/one/queries";
import { ofNode } from "@/pages/nodes/one/words";
import { Under } from "@/pages/nodes/Under";
import { phrase, stateWord } from "@/text/operation";

export function Operations({ node }: { node: NodeOut }) {
  const going = useQuery(operations);
  const ended = useQuery(recordOf(node.id));
  return (
    <div className="stack">
      <Panel
        title="Under way"
        actions={
          <Link className="small" to="/operations" search={{ node: node.name }}>
            All operations on {node.name}
          </Link>
        }
      >
        <Answered query={going}>
          {(all) => {
            const here = ofNode(all, node.id);
            if (here.length === 0) return <p className="soft">Nothing is under way on this node.</p>;
            return (
              <ul className="plain node-operations">
                {here.map((operation) => (
                  <li key={operation.id}>
                    <Under operation={operation} node={node} />
                    <Pill tone={stateWord(operation.state).tone}>{stateWord(operation.state).text}</Pill>
                  </li>
                ))}
              </ul>
            );
          }}
        </Answered>
      </Panel>
      <Panel title="Record" note="What has ended, on this node alone or among others.">
        <Answered query={ended}>
          {(page) => {
            if (page.operations.length === 0) return <Empty title="Nothing of this node is on record." />;
            return (
              <ul className="plain node-operations">
                {page.operations.map((record) => (
                  <li key={record.id}>
                    <Link to="/operations" search={{ operation: record.id }}>
                      {record.name}
                    </Link>
                    <span className="small soft">{phrase(record)}</span>
                    <span className="small faint">
                      <Ago at={record.finishedAt} /> by {record.createdBy}
                    </span>
                  </li>
                ))}
              </ul>
            );
          }}
        </Answered>
      </Panel>
    </div>
  );
}
