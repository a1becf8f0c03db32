// A tab's side of the stream: through the shared worker where the browser has one, else a stream of its own.
//
// Either way a tab that nobody sees holds no connection. Browsers without shared workers are those of phones, which
// show one tab at a time, so one stream for each visible tab is one stream there, too.
import { KINDS } from "@/live/changes";
import { type HubMessage, LINGER_MS, SIGN_MS, StreamHub, type Tab, type TabMessage } from "@/live/hub";
import { Stream, type StreamListener } from "@/live/stream";

/** A shared worker that has said nothing by then is broken: its script could not be fetched or run. */
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
    tell();
  };
  const tell = () => link.send(document.hidden ? { kind: "hidden" } : { kind: "shown", user });
  const onPageHide = (event: PageTransitionEvent) => link.send({ kind: event.persisted ? "hidden" : "left" });
  link =
    typeof SharedWorker === "undefined" ? linkToOwnStream(receive) : linkToWorker(receive, takeOwnStream);
  const sign = setInterval(tell, SIGN_MS);
  document.addEventListener("visibilitychange", tell);
  window.addEventListener("pageshow", tell);
  window.addEventListener("pagehide", onPageHide);
  tell();
  return () => {
    clearInterval(sign);
    document.removeEventListener("visibilitychange", tell);
    window.removeEventListener("pageshow", tell);
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
  const worker = new SharedWorker(new URL("./shared.ts", import.meta.url), { type: "module" });
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
  const hub = new StreamHub((listener) => new Stream(listener, KINDS));
  const tab: Tab = { postMessage: (message) => receive(link, message) };
  const link: TabLink = {
    send: (message) => hub.receive(tab, message),
    close: () => hub.receive(tab, { kind: "left" }),
  };
  return link;
}

/** Call `start` while the tab is visible and `stop` a moment after it is hidden, for a connection of a tab's own. */
export function whileShown(connection: { start(): void; stop(): void }): () => void {
  let isOpen = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const close = () => {
    if (isOpen) connection.stop();
    isOpen = false;
  };
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(close, LINGER_MS);
    else if (!isOpen) {
      isOpen = true;
      connection.start();
    }
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
    close();
  };
}
