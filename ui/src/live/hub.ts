// The one stream of a browser, shared by its tabs. Runs in a shared worker (streamWorker.ts).
//
// The stream is open while a tab is visible, and a moment longer: switching between tabs costs nothing. A tab that is
// hidden for longer is sent nothing (a frozen tab would only queue its messages); when it is shown again it is sent
// `connecting` first, which makes it refetch its queries. A tab that crashed is noticed by its missing heartbeats.
import type { ConnectionStatus, StreamFrame, StreamListener } from "@/live/stream";

/** A message from a tab to the hub. `user` is the signed-in user: another user needs another connection. */
export type TabMessage = { kind: "shown"; user: string } | { kind: "hidden" } | { kind: "left" };

/** A message from the hub to a tab. */
export type HubMessage =
  | { kind: "welcome" }
  | { kind: "frame"; frame: StreamFrame }
  | { kind: "connection"; connection: ConnectionStatus; since?: number }
  | { kind: "refused" };

/** The interval at which a visible tab sends `shown`. */
export const TAB_HEARTBEAT_MS = 15_000;
/** How long a hidden tab is still sent frames. */
export const LINGER_MS = 10_000;
const TAB_EXPIRES_MS = 3 * TAB_HEARTBEAT_MS;

export interface TabPort {
  postMessage(message: HubMessage): void;
}

interface TabState {
  isShown: boolean;
  /** The time of the last heartbeat of a visible tab, or the time at which the tab was hidden. */
  at: number;
}

interface HubStream {
  start(): void;
  stop(): void;
}

const CONNECTING: HubMessage = { kind: "connection", connection: "connecting" };

export class StreamHub {
  private readonly tabs = new Map<TabPort, TabState>();
  private readonly stream: HubStream;
  private user: string | undefined;
  private connection: HubMessage = CONNECTING;
  private timer: ReturnType<typeof setInterval> | undefined;

  constructor(makeStream: (listener: StreamListener) => HubStream) {
    this.stream = makeStream({
      onFrame: (frame) => this.broadcast({ kind: "frame", frame }),
      onConnection: (connection, since) => {
        this.connection = { kind: "connection", connection, ...(since === undefined ? {} : { since }) };
        this.broadcast(this.connection);
      },
      onRefused: () => this.broadcast({ kind: "refused" }),
    });
  }

  receive(tab: TabPort, message: TabMessage): void {
    if (message.kind === "shown") {
      this.show(tab, message.user);
    } else if (message.kind === "left") {
      this.drop(tab);
    } else {
      const state = this.tabs.get(tab);
      if (state?.isShown) this.tabs.set(tab, { isShown: false, at: Date.now() });
    }
  }

  private show(tab: TabPort, user: string): void {
    const isKnown = this.tabs.has(tab);
    const isOpen = this.tabs.size > 0;
    this.tabs.set(tab, { isShown: true, at: Date.now() });
    if (!isKnown) tab.postMessage(CONNECTING);
    if (isOpen && user === this.user) {
      if (!isKnown) tab.postMessage(this.connection);
      return;
    }
    if (isOpen) this.stream.stop();
    this.user = user;
    this.timer ??= setInterval(() => this.expire(), LINGER_MS);
    this.stream.start();
  }

  private expire(): void {
    const now = Date.now();
    for (const [tab, { isShown, at }] of this.tabs)
      if (now - at >= (isShown ? TAB_EXPIRES_MS : LINGER_MS)) this.drop(tab);
  }

  private drop(tab: TabPort): void {
    if (!this.tabs.delete(tab) || this.tabs.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
    this.stream.stop();
    this.connection = CONNECTING;
  }

  private broadcast(message: HubMessage): void {
    for (const tab of this.tabs.keys()) tab.postMessage(message);
  }
}
