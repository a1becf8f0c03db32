// Follows the stream while a user who may read it is signed in.
import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { CacheUpdater } from "@/live/cacheUpdater";
import { setConnection } from "@/live/connection";
import { refetchQueries } from "@/live/refetch";
import { followStream } from "@/live/tabStream";
import { useMe } from "@/shell/me";

export function LiveUpdates() {
  const cache = useQueryClient();
  const { name, scope } = useMe();
  useEffect(() => {
    const updater = new CacheUpdater(cache);
    // A page reads its data before the stream is open: a change in between is in neither.
    let hasMissed = true;
    return followStream(`${scope} ${name}`, {
      onFrame: (frame) => updater.applyFrame(frame),
      onConnection: (connection, since) => {
        if (connection === "open") {
          // Frames without an id are not sent again: the queries that they update are refetched once after a pause.
          if (hasMissed) refetchQueries(cache);
          hasMissed = false;
        } else if (connection !== "silent") {
          hasMissed = true;
        }
        setConnection(connection, since);
      },
      // The caller is queried again: if the session has ended, the sign-in form is shown.
      onRefused: () => void cache.invalidateQueries({ queryKey: ["me"] }),
    });
  }, [cache, name, scope]);
  return null;
}
