// A stream of the server. It reconnects by itself from where it stood, on whichever frontend answers.
//
// The browser's EventSource reconnects after a cut, and sends the last id; after an answer that is no stream (a
// frontend that starts, a session that ended) it gives up, and then this does it, with `after` in the address.
// Runs in a page and in a shared worker: nothing here needs a window.

export interface Frame {
  kind: string;
  data: unknown;
}

/** `silent`: connected, but the server has said nothing for longer than it promises. */
export type Connection = "connecting" | "open" | "silent" | "lost";

export interface StreamListener {
  onFrame: (frame: Frame) => void;
  /** `since` is the time of the last frame, in milliseconds; set for `silent` and `lost` if there was one. */
  onConnection: (connection: Connection, since?: number) => void;
  /** The stream was refused; the caller finds out whether the session has ended. */
  onRefused: () => void;
}

const AGAIN_MIN_MS = 1000;
const AGAIN_MAX_MS = 15_000;
/** The server says something every 4 s; log streams every 5 s. */
export const SILENT_MS = 10_000;
export const DEAD_MS = 20_000;
/** Frames that the stream itself makes, beside the kinds of the outbox. */
const OWN_KINDS = ["hello", "reset", "operation.progress", "live", "nodes", "still"];

type Timer = ReturnType<typeof setTimeout>;

export class Stream {
  private source: EventSource | null = null;
  private place = "";
  private waitMs = AGAIN_MIN_MS;
  private timer: Timer | undefined;
  private watchdog: Timer | undefined;
  private isSilent = false;
  private lastFrameAt: number | undefined;

  constructor(
    private readonly listener: StreamListener,
    private readonly kinds: readonly string[],
    private readonly address = "/api/stream",
    private readonly open: (address: string) => EventSource = (address) => new EventSource(address),
  ) {}

  start(): void {
    this.listener.onConnection("connecting");
    this.connect();
    globalThis.addEventListener("online", this.soon);
  }

  /** Close the connection. The place in the stream is kept: `start` goes on from there. */
  stop(): void {
    globalThis.removeEventListener("online", this.soon);
    clearTimeout(this.timer);
    clearTimeout(this.watchdog);
    this.source?.close();
    this.source = null;
    this.waitMs = AGAIN_MIN_MS;
  }

  private connect(): void {
    clearTimeout(this.timer);
    this.source?.close();
    const source = this.open(
      this.place ? `${this.address}?after=${encodeURIComponent(this.place)}` : this.address,
    );
    this.source = source;
    const heard = (event: MessageEvent<string>) => this.heard(source, event);
    for (const kind of [...OWN_KINDS, ...this.kinds]) source.addEventListener(kind, heard as EventListener);
    source.addEventListener("error", () => this.failed(source));
    this.watch();
  }

  private heard(source: EventSource, event: MessageEvent<string>): void {
    if (source !== this.source) return;
    if (event.lastEventId) this.place = event.lastEventId;
    this.lastFrameAt = Date.now();
    this.watch();
    if (event.type === "hello") {
      this.waitMs = AGAIN_MIN_MS;
      this.isSilent = false;
      this.listener.onConnection("open");
    } else if (this.isSilent) {
      this.isSilent = false;
      this.listener.onConnection("open");
    }
    if (event.type !== "still")
      this.listener.onFrame({ kind: event.type, data: JSON.parse(event.data) as unknown });
  }

  private failed(source: EventSource): void {
    if (source !== this.source) return;
    this.tellLost();
    if (source.readyState === EventSource.CLOSED) {
      this.listener.onRefused();
      this.again();
    }
  }

  private tellLost(): void {
    this.isSilent = false;
    this.listener.onConnection("lost", this.lastFrameAt);
  }

  private again(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), this.waitMs);
    this.waitMs = Math.min(this.waitMs * 2, AGAIN_MAX_MS);
  }

  private readonly soon = (): void => {
    this.waitMs = AGAIN_MIN_MS;
    if (this.source?.readyState !== EventSource.OPEN) this.connect();
  };

  /** A connection that is silent is told as such, and one that stays silent is dead, whatever the browser thinks. */
  private watch(): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => {
      if (this.source?.readyState === EventSource.OPEN) {
        this.isSilent = true;
        this.listener.onConnection("silent", this.lastFrameAt);
      }
      this.watchdog = setTimeout(() => {
        this.tellLost();
        this.connect();
      }, DEAD_MS - SILENT_MS);
    }, SILENT_MS);
  }
}
