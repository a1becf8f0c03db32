// The growing curves: every two seconds a sample of the stream's last numbers.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { live, nodes } from "@/api/queries";
import { useConnection } from "@/live/connection";
import {
  appendFleetSample,
  computeSkew,
  EMPTY_SAMPLE,
  type FleetCurves,
  joinCurves,
  makeFleetSample,
  NO_CURVES,
} from "@/pages/overview/fleetCurves";
import { history } from "@/pages/overview/queries";

const STEP_MS = 2000;

export function useFleetCurves(): FleetCurves {
  const cache = useQueryClient();
  const past = useQuery(history);
  const isLost = useConnection().connection === "lost";
  const [own, setOwn] = useState(NO_CURVES);
  const apart = useRef(0);
  apart.current = useMemo(() => computeSkew(past.data, past.dataUpdatedAt), [past.data, past.dataUpdatedAt]);

  useEffect(() => {
    const timer = window.setInterval(() => {
      const sample = isLost
        ? EMPTY_SAMPLE
        : makeFleetSample(cache.getQueryData(live.queryKey), cache.getQueryData(nodes.queryKey));
      setOwn((curves) => appendFleetSample(curves, Date.now() / 1000 + apart.current, sample));
    }, STEP_MS);
    return () => window.clearInterval(timer);
  }, [cache, isLost]);

  // The browser slows down timers of a page in the background, so the missed samples are fetched.
  useEffect(() => {
    const back = () => {
      if (document.visibilityState === "visible")
        void cache.invalidateQueries({ queryKey: history.queryKey });
    };
    document.addEventListener("visibilitychange", back);
    return () => document.removeEventListener("visibilitychange", back);
  }, [cache]);

  return useMemo(() => joinCurves(past.data, own), [past.data, own]);
}
