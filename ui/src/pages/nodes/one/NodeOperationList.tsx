// The active and ended operations of this node.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { operations } from "@/api/queries";
import type { NodeOut } from "@/api/schema";
import { EmptyState, Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill } from "@/kit/status";
import { NodeOperation } from "@/pages/nodes/NodeOperation";
import { endedOperationsQuery } from "@/pages/nodes/one/queries";
import { filterByNode } from "@/pages/nodes/one/words";
import { phrase, stateWord } from "@/text/operation";

export function NodeOperationList({ node }: { node: NodeOut }) {
  const active = useQuery(operations);
  const ended = useQuery(endedOperationsQuery(node.id));
  return (
    <div className="stack">
      <Panel
        title="Active"
        actions={
          <Link className="small" to="/operations" search={{ node: node.name }}>
            All operations on {node.name}
          </Link>
        }
      >
        <QueryView query={active}>
          {(all) => {
            const here = filterByNode(all, node.id);
            if (here.length === 0) return <p className="soft">No active operations on this node.</p>;
            return (
              <ul className="plain node-operations">
                {here.map((operation) => (
                  <li key={operation.id}>
                    <NodeOperation operation={operation} node={node} />
                    <Pill tone={stateWord(operation.state).tone}>{stateWord(operation.state).text}</Pill>
                  </li>
                ))}
              </ul>
            );
          }}
        </QueryView>
      </Panel>
      <Panel title="History" note="Ended operations that included this node.">
        <QueryView query={ended}>
          {(page) => {
            if (page.operations.length === 0)
              return <EmptyState title="No operations in the history of this node." />;
            return (
              <ul className="plain node-operations">
                {page.operations.map((record) => (
                  <li key={record.id}>
                    <Link to="/operations" search={{ operation: record.id }}>
                      {record.name}
                    </Link>
                    <span className="small soft">{phrase(record)}</span>
                    <span className="small faint">
                      <RelativeTime at={record.finishedAt} /> by {record.createdBy}
                    </span>
                  </li>
                ))}
              </ul>
            );
          }}
        </QueryView>
      </Panel>
    </div>
  );
}
