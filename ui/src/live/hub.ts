// The one stream of a browser, shared by its tabs. Runs in a shared worker (shared.ts).
//
// The stream is open while a tab is visible, and a moment longer: switching between tabs costs nothing. A tab that is
// hidden for longer is told nothing (a frozen tab would only pile up what it is sent); when it is shown again it is told
// `connecting` first, which makes it read anew what it shows. A tab that crashed is noticed by the lack of its signs.
import type { Connection, Frame, StreamListener } from "@/live/stream";

/** What a tab says. `user` is who it is logged in as: another user needs another connection. */
export type TabMessage = { kind: "shown"; user: string } | { kind: "hidden" } | { kind: "left" };

/** What a tab is told. */
export type HubMessage =
  | { kind: "welcome" }
  | { kind: "frame"; frame: Frame }
  | { kind: "connection"; connection: Connection; since?: number }
  | { kind: "refused" };

/** Visible tabs say so this often. */
export const SIGN_MS = 15_000;
/** How long a hidden tab is still followed. */
export const LINGER_MS = 10_000;
const SIGN_EXPIRES_MS = 3 * SIGN_MS;

export interface Tab {
  postMessage(message: HubMessage): void;
}

interface TabState {
  isShown: boolean;
  /** Of its last sign while it is visible; of its hiding afterwards. */
  at: number;
}

interface HubStream {
  start(): void;
  stop(): void;
}

const CONNECTING: HubMessage = { kind: "connection", connection: "connecting" };

export class StreamHub {
  private readonly tabs = new Map<Tab, TabState>();
  private readonly stream: HubStream;
  private user: string | undefined;
  private connection: HubMessage = CONNECTING;
  private timer: ReturnType<typeof setInterval> | undefined;

  constructor(makeStream: (listener: StreamListener) => HubStream) {
    this.stream = makeStream({
      onFrame: (frame) => this.tell({ kind: "frame", frame }),
      onConnection: (connection, since) => {
        this.connection = { kind: "connection", connection, ...(since === undefined ? {} : { since }) };
        this.tell(this.connection);
      },
      onRefused: () => this.tell({ kind: "refused" }),
    });
  }

  receive(tab: Tab, message: TabMessage): void {
    if (message.kind === "shown") {
      this.show(tab, message.user);
    } else if (message.kind === "left") {
      this.drop(tab);
    } else {
      const state = this.tabs.get(tab);
      if (state?.isShown) this.tabs.set(tab, { isShown: false, at: Date.now() });
    }
  }

  private show(tab: Tab, user: string): void {
    const isFollowed = this.tabs.has(tab);
    const isOpen = this.tabs.size > 0;
    this.tabs.set(tab, { isShown: true, at: Date.now() });
    if (!isFollowed) tab.postMessage(CONNECTING);
    if (isOpen && user === this.user) {
      if (!isFollowed) tab.postMessage(this.connection);
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
      if (now - at >= (isShown ? SIGN_EXPIRES_MS : LINGER_MS)) this.drop(tab);
  }

  private drop(tab: Tab): void {
    if (!this.tabs.delete(tab) || this.tabs.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
    this.stream.stop();
    this.connection = CONNECTING;
  }

  private tell(message: HubMessage): void {
    for (const tab of this.tabs.keys()) tab.postMessage(message);
  }
}
