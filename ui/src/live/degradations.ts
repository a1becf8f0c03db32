// Lists what does not work now, in sentences. An outage is no event, least of all one of PostgreSQL: the live view
// reports it every second, from memory.
import { useQuery } from "@tanstack/react-query";
import { live } from "@/api/queries";
import type { LiveOut } from "@/api/schema";
import { withLocalTimes } from "@/text/format";

const NONE: readonly string[] = [];

const listDegradations = (now: Pick<LiveOut, "degraded">): readonly string[] =>
  now.degraded?.map(withLocalTimes) ?? NONE;

/** Renders only when a sentence changes, not with every number of the live view. */
export function useDegradations(): readonly string[] {
  return useQuery({ ...live, select: listDegradations }).data ?? NONE;
}
