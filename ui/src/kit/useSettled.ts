// Debounces a value that is typed, so that the server is called once for it and not for each letter.
import { useEffect, useMemo, useState } from "react";

const SETTLE_MS = 200;

/** Returns the value once it has not changed for a moment. It is compared as JSON. */
export function useSettled<T>(value: T): T {
  const text = JSON.stringify(value);
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(text), SETTLE_MS);
    return () => window.clearTimeout(timer);
  }, [text]);
  return useMemo(() => JSON.parse(settled) as T, [settled]);
}
