// The present time, which moves once a second while something is open.
import { useEffect, useState } from "react";

const TICK_MS = 1000;

export function useSeconds(isTicking: boolean): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isTicking) return;
    const timer = window.setInterval(() => setNow(Date.now()), TICK_MS);
    return () => window.clearInterval(timer);
  }, [isTicking]);
  return now;
}
