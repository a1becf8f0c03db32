// The growing curves of a node: every five seconds a sample of the stream's last numbers about it.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { live } from "@/api/queries";
import type { NodeOut } from "@/api/schema";
import { useConnection } from "@/live/connection";
import { hasCurrentHeartbeat } from "@/pages/nodes/fleetSummary";
import { replicasByNode, sumInFlight } from "@/pages/nodes/nodeList";
import { hasCondition } from "@/pages/nodes/offers";
import {
  appendNodeSample,
  cutCurves,
  makeNodeSample,
  type NodeCurves,
  toCurves,
} from "@/pages/nodes/one/nodeCurves";
import { nodeHistoryQuery } from "@/pages/nodes/one/queries";

const STEP_MS = 5000;

export function useNodeCurves(node: NodeOut): NodeCurves {
  const queries = useQueryClient();
  const past = useQuery(nodeHistoryQuery(node.id));
  const isLost = useConnection().connection === "lost";
  const begun = useMemo(() => toCurves(past.data), [past.data]);
  const [curves, setCurves] = useState(begun);
  const present = useRef({ node, isLost });
  present.current = { node, isLost };
  // The clocks of this machine and of the frontend need not agree.
  const apart = useRef(0);

  useEffect(() => {
    apart.current = (begun.at.at(-1) ?? Date.now() / 1000) - past.dataUpdatedAt / 1000;
    setCurves(begun);
  }, [begun, past.dataUpdatedAt]);

  useEffect(() => {
    const timer = window.setInterval(() => {
      const { node: now, isLost: lost } = present.current;
      const chips = replicasByNode(queries.getQueryData(live.queryKey)).get(now.name) ?? [];
      const sample = makeNodeSample(now, sumInFlight(chips), !lost && hasCondition(now, "alive"));
      setCurves((before) => appendNodeSample(before, Date.now() / 1000 + apart.current, sample));
    }, STEP_MS);
    return () => window.clearInterval(timer);
  }, [queries]);
  const lastHeartbeatS =
    hasCurrentHeartbeat(node) || !node.last_heartbeat ? null : Date.parse(node.last_heartbeat) / 1000;
  return useMemo(() => cutCurves(curves, lastHeartbeatS), [curves, lastHeartbeatS]);
}
