// The trace of a run as a panel that grows while the run is open.
import { useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import type { RunOut } from "@/api/schema";
import { Panel } from "@/kit/Panel";
import { LoadingLines } from "@/kit/QueryView";
import { runQuery } from "@/pages/runs/queries";
import { useTrace } from "@/pages/runs/useTrace";
import { Waterfall } from "@/pages/runs/Waterfall";
import { useHasScope } from "@/shell/me";
import { isOpenRun } from "@/text/run";

export function RunTrace({ run }: { run: RunOut }) {
  const isAdmin = useHasScope("admin");
  const cache = useQueryClient();
  const refresh = useCallback(
    () => void cache.invalidateQueries({ queryKey: runQuery(run.id, isAdmin).queryKey }),
    [cache, run.id, isAdmin],
  );
  const { trace, connection } = useTrace(run, isAdmin, refresh);
  const isLost = connection === "lost" || connection === "silent";
  return (
    <Panel
      title="Trace"
      note={isLost && !trace.isEnded ? "The connection is lost. The trace continues when it is back." : null}
    >
      {trace.rows.length > 0 ? (
        <Waterfall trace={trace} />
      ) : run.last_seq > trace.lastSeq && !isLost ? (
        <LoadingLines />
      ) : (
        <p className="soft">
          {isOpenRun(run.state)
            ? "Nothing has happened yet. Entries appear here as soon as a worker begins."
            : "This run has no entries in its trace."}
        </p>
      )}
    </Panel>
  );
}
