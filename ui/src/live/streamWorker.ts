// The shared worker: the stream of all tabs of this browser.

import { StreamHub, type TabMessage } from "@/live/hub";
import { EVENT_KINDS } from "@/live/staleTopics";
import { EventStream } from "@/live/stream";

const hub = new StreamHub((listener) => new EventStream(listener, EVENT_KINDS));

self.addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0];
  if (!port) return;
  port.addEventListener("message", (message: MessageEvent<TabMessage>) => hub.receive(port, message.data));
  port.start();
  port.postMessage({ kind: "welcome" });
});
