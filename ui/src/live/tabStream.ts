// A tab's side of the stream: through the shared worker where the browser has one, else a stream of its own.
//
// Either way a hidden tab holds no connection. Browsers without shared workers are those of phones, which
// show one tab at a time, so one stream for each visible tab is one stream there, too.

import {
  type HubMessage,
  LINGER_MS,
  StreamHub,
  TAB_HEARTBEAT_MS,
  type TabMessage,
  type TabPort,
} from "@/live/hub";
import { EVENT_KINDS } from "@/live/staleTopics";
import { EventStream, type StreamListener } from "@/live/stream";

/** A shared worker that has sent nothing by then is broken: its script could not be fetched or run. */
const WORKER_MS = 5000;

/** Follow the stream as `user` until the returned function is called. */
export function followStream(user: string, listener: StreamListener): () => void {
  let link: TabLink;
  const receive = (from: TabLink, message: HubMessage) => {
    if (from !== link) return;
    if (message.kind === "frame") listener.onFrame(message.frame);
    else if (message.kind === "connection") listener.onConnection(message.connection, message.since);
    else if (message.kind === "refused") listener.onRefused();
  };
  const takeOwnStream = () => {
    link.close();
    link = linkToOwnStream(receive);
    sendVisibility();
  };
  const sendVisibility = () => link.send(document.hidden ? { kind: "hidden" } : { kind: "shown", user });
  const onPageHide = (event: PageTransitionEvent) => link.send({ kind: event.persisted ? "hidden" : "left" });
  link =
    typeof SharedWorker === "undefined" ? linkToOwnStream(receive) : linkToWorker(receive, takeOwnStream);
  const heartbeat = setInterval(sendVisibility, TAB_HEARTBEAT_MS);
  document.addEventListener("visibilitychange", sendVisibility);
  window.addEventListener("pageshow", sendVisibility);
  window.addEventListener("pagehide", onPageHide);
  sendVisibility();
  return () => {
    clearInterval(heartbeat);
    document.removeEventListener("visibilitychange", sendVisibility);
    window.removeEventListener("pageshow", sendVisibility);
    window.removeEventListener("pagehide", onPageHide);
    link.close();
  };
}

interface TabLink {
  send: (message: TabMessage) => void;
  close: () => void;
}

type Receive = (from: TabLink, message: HubMessage) => void;

function linkToWorker(receive: Receive, onBroken: () => void): TabLink {
  const worker = new SharedWorker(new URL("./streamWorker.ts", import.meta.url), { type: "module" });
  const timer = setTimeout(onBroken, WORKER_MS);
  const link: TabLink = {
    send: (message) => worker.port.postMessage(message),
    close: () => {
      clearTimeout(timer);
      worker.port.postMessage({ kind: "left" });
      worker.port.close();
    },
  };
  worker.addEventListener("error", onBroken, { once: true });
  worker.port.addEventListener("message", (event: MessageEvent<HubMessage>) => {
    clearTimeout(timer);
    receive(link, event.data);
  });
  worker.port.start();
  return link;
}

function linkToOwnStream(receive: Receive): TabLink {
  const hub = new StreamHub((listener) => new EventStream(listener, EVENT_KINDS));
  const tab: TabPort = { postMessage: (message) => receive(link, message) };
  const link: TabLink = {
    send: (message) => hub.receive(tab, message),
    close: () => hub.receive(tab, { kind: "left" }),
  };
  return link;
}

/** Call `start` while the tab is visible and `stop` a moment after it is hidden, for a connection of a tab's own. */
export function runWhileVisible(connection: { start(): void; stop(): void }): () => void {
  let isOpen = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const close = () => {
    if (isOpen) connection.stop();
    isOpen = false;
  };
  const onVisibilityChange = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(close, LINGER_MS);
    else if (!isOpen) {
      isOpen = true;
      connection.start();
    }
  };
  document.addEventListener("visibilitychange", onVisibilityChange);
  onVisibilityChange();
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onVisibilityChange);
    close();
  };
}
