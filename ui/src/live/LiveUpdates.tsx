// Follows the stream while somebody who may read it is logged in.
import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { CacheUpdater } from "@/live/cacheUpdater";
import { setConnection } from "@/live/connection";
import { followStream } from "@/live/tabStream";
import { useMe } from "@/shell/me";

export function LiveUpdates() {
  const cache = useQueryClient();
  const { name, scope } = useMe();
  useEffect(() => {
    const updater = new CacheUpdater(cache);
    let wasOpen = false;
    // A tab that is opened in the background reads its data long before it follows the stream.
    let hasMissed = document.hidden;
    return followStream(`${scope} ${name}`, {
      onFrame: (frame) => updater.applyFrame(frame),
      onConnection: (connection, since) => {
        if (connection === "open") {
          // Numbers without an id are not sent again: what they moved is read once after a pause.
          if (hasMissed) void cache.invalidateQueries();
          hasMissed = false;
          wasOpen = true;
        } else if (wasOpen && connection !== "silent") {
          hasMissed = true;
        }
        setConnection(connection, since);
      },
      // A session that has ended refuses everything: reading who we are finds out, and shows the door.
      onRefused: () => void cache.invalidateQueries({ queryKey: ["me"] }),
    });
  }, [cache, name, scope]);
  return null;
}
