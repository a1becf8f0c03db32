// Keeps the stream open while somebody who may read it is logged in.
import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { KINDS } from "@/live/changes";
import { setConnection } from "@/live/connection";
import { Feed } from "@/live/feed";
import { type Connection, Stream } from "@/live/stream";

export function Live() {
  const cache = useQueryClient();
  useEffect(() => {
    const feed = new Feed(cache);
    let was: Connection = "connecting";
    const stream = new Stream(
      {
        onFrame: (frame) => feed.take(frame),
        onConnection: (connection) => {
          // Numbers without an id are not sent again: what they moved is read once after a cut.
          if (was === "lost" && connection === "open") void cache.invalidateQueries();
          was = connection;
          setConnection(connection);
        },
        // A session that has ended refuses everything: reading who we are finds out, and shows the door.
        onRefused: () => void cache.invalidateQueries({ queryKey: ["me"] }),
      },
      KINDS,
    );
    stream.start();
    return () => stream.stop();
  }, [cache]);
  return null;
}
