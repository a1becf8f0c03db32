// The shared worker: the stream of all tabs of this browser.
import { KINDS } from "@/live/changes";
import { StreamHub, type TabMessage } from "@/live/hub";
import { Stream } from "@/live/stream";

const hub = new StreamHub((listener) => new Stream(listener, KINDS));

self.addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0];
  if (!port) return;
  port.addEventListener("message", (message: MessageEvent<TabMessage>) => hub.receive(port, message.data));
  port.start();
  port.postMessage({ kind: "welcome" });
});
