// A stream of the server. It reconnects by itself from where it stood, on whichever frontend answers.
//
// The browser's EventSource reconnects after a cut, and sends the last id; after an answer that is no stream (a
// frontend that starts, a session that ended) it gives up, and then this does it, with `after` in the address.

export interface Frame {
  kind: string;
  data: unknown;
}

export type Connection = "connecting" | "open" | "lost";

interface Listener {
  onFrame: (frame: Frame) => void;
  onConnection: (connection: Connection) => void;
  /** The stream was refused; the caller finds out whether the session has ended. */
  onRefused: () => void;
}

const AGAIN_MIN_MS = 1000;
const AGAIN_MAX_MS = 15_000;
/** The server says something every 15 s. */
const SILENCE_MS = 40_000;
/** Frames that the stream itself makes, beside the kinds of the outbox. */
const OWN_KINDS = ["hello", "reset", "operation.progress", "live", "nodes", "still"];

export class Stream {
  private source: EventSource | null = null;
  private place = "";
  private waitMs = AGAIN_MIN_MS;
  private timer: number | undefined;
  private watchdog: number | undefined;

  constructor(
    private readonly listener: Listener,
    private readonly kinds: readonly string[],
    private readonly address = "/api/stream",
    private readonly open: (address: string) => EventSource = (address) => new EventSource(address),
  ) {}

  start(): void {
    this.listener.onConnection("connecting");
    this.connect();
    window.addEventListener("online", this.soon);
  }

  stop(): void {
    window.removeEventListener("online", this.soon);
    window.clearTimeout(this.timer);
    window.clearTimeout(this.watchdog);
    this.source?.close();
    this.source = null;
  }

  private connect(): void {
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
    this.watch();
    if (event.type === "hello") {
      this.waitMs = AGAIN_MIN_MS;
      this.listener.onConnection("open");
    }
    if (event.type !== "still")
      this.listener.onFrame({ kind: event.type, data: JSON.parse(event.data) as unknown });
  }

  private failed(source: EventSource): void {
    if (source !== this.source) return;
    this.listener.onConnection("lost");
    if (source.readyState === EventSource.CLOSED) {
      this.listener.onRefused();
      this.again();
    }
  }

  private again(): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.connect(), this.waitMs);
    this.waitMs = Math.min(this.waitMs * 2, AGAIN_MAX_MS);
  }

  private readonly soon = (): void => {
    this.waitMs = AGAIN_MIN_MS;
    if (this.source?.readyState !== EventSource.OPEN) this.connect();
  };

  /** A connection that is silent for too long is dead, whatever the browser thinks. */
  private watch(): void {
    window.clearTimeout(this.watchdog);
    this.watchdog = window.setTimeout(() => {
      this.listener.onConnection("lost");
      this.connect();
    }, SILENCE_MS);
  }
}
