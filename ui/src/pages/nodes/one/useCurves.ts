// The curves as they grow: a reading every five seconds of what the stream last said of the node.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { live } from "@/api/queries";
import type { NodeOut } from "@/api/schema";
import { useConnection } from "@/live/connection";
import { holds } from "@/pages/nodes/offers";
import { asCurves, type Curves, endedAt, sampleOf, withSample } from "@/pages/nodes/one/curves";
import { historyOf } from "@/pages/nodes/one/queries";
import { inFlightOf, replicasByNode } from "@/pages/nodes/roster";
import { isHeard } from "@/pages/nodes/tally";

const STEP_MS = 5000;

export function useCurves(node: NodeOut): Curves {
  const queries = useQueryClient();
  const past = useQuery(historyOf(node.id));
  const isLost = useConnection().connection === "lost";
  const begun = useMemo(() => asCurves(past.data), [past.data]);
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
      const sample = sampleOf(now, inFlightOf(chips), !lost && holds(now, "alive"));
      setCurves((before) => withSample(before, Date.now() / 1000 + apart.current, sample));
    }, STEP_MS);
    return () => window.clearInterval(timer);
  }, [queries]);
  const lastHeardS = isHeard(node) || !node.last_heartbeat ? null : Date.parse(node.last_heartbeat) / 1000;
  return useMemo(() => endedAt(curves, lastHeardS), [curves, lastHeardS]);
}
