// A stream of server-sent events. It reconnects by itself at its last position, to any frontend that answers.
//
// The browser's EventSource reconnects after a cut, and sends the last id; after an answer that is no stream (a
// frontend that starts, a session that ended) it gives up, and this class reconnects, with `after` in the URL.
// Runs in a page and in a shared worker: nothing here needs a window.

export interface StreamFrame {
  kind: string;
  data: unknown;
}

/** `silent`: connected, but the server has sent nothing for longer than it promises. */
export type ConnectionStatus = "connecting" | "open" | "silent" | "lost";

export interface StreamListener {
  onFrame: (frame: StreamFrame) => void;
  /** `since` is the time of the last frame, in milliseconds; set for `silent` and `lost` if there was one. */
  onConnection: (connection: ConnectionStatus, since?: number) => void;
  /** The stream was refused; the caller finds out whether the session has ended. */
  onRefused: () => void;
}

const RECONNECT_MIN_MS = 1000;
const RECONNECT_MAX_MS = 15_000;
/** The server sends a frame at least every 4 s; log streams every 5 s. */
const SILENT_MS = 10_000;
const DEAD_MS = 20_000;
/** Frames that the stream itself makes, beside the kinds of the outbox. */
const OWN_KINDS = ["hello", "reset", "operation.progress", "live", "nodes", "still"];

type Timer = ReturnType<typeof setTimeout>;

export class EventStream {
  private source: EventSource | null = null;
  private lastEventId = "";
  private waitMs = RECONNECT_MIN_MS;
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
    globalThis.addEventListener("online", this.reconnectNow);
  }

  /** Close the connection. The position in the stream is kept: `start` continues from there. */
  stop(): void {
    globalThis.removeEventListener("online", this.reconnectNow);
    clearTimeout(this.timer);
    clearTimeout(this.watchdog);
    this.source?.close();
    this.source = null;
    this.waitMs = RECONNECT_MIN_MS;
  }

  private connect(): void {
    clearTimeout(this.timer);
    this.source?.close();
    const source = this.open(this.makeAddress());
    this.source = source;
    const onMessage = (event: MessageEvent<string>) => this.onMessage(source, event);
    for (const kind of [...OWN_KINDS, ...this.kinds])
      source.addEventListener(kind, onMessage as EventListener);
    source.addEventListener("error", () => this.onError(source));
    this.restartWatchdog();
  }

  private makeAddress(): string {
    if (!this.lastEventId) return this.address;
    const separator = this.address.includes("?") ? "&" : "?";
    return `${this.address}${separator}after=${encodeURIComponent(this.lastEventId)}`;
  }

  private onMessage(source: EventSource, event: MessageEvent<string>): void {
    if (source !== this.source) return;
    if (event.lastEventId) this.lastEventId = event.lastEventId;
    this.lastFrameAt = Date.now();
    this.restartWatchdog();
    if (event.type === "hello") {
      this.waitMs = RECONNECT_MIN_MS;
      this.isSilent = false;
      this.listener.onConnection("open");
    } else if (this.isSilent) {
      this.isSilent = false;
      this.listener.onConnection("open");
    }
    if (event.type !== "still")
      this.listener.onFrame({ kind: event.type, data: JSON.parse(event.data) as unknown });
  }

  private onError(source: EventSource): void {
    if (source !== this.source) return;
    this.reportLost();
    if (source.readyState === EventSource.CLOSED) {
      this.listener.onRefused();
      this.scheduleReconnect();
    }
  }

  private reportLost(): void {
    this.isSilent = false;
    this.listener.onConnection("lost", this.lastFrameAt);
  }

  private scheduleReconnect(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), this.waitMs);
    this.waitMs = Math.min(this.waitMs * 2, RECONNECT_MAX_MS);
  }

  private readonly reconnectNow = (): void => {
    this.waitMs = RECONNECT_MIN_MS;
    if (this.source?.readyState !== EventSource.OPEN) this.connect();
  };

  /** Reports a connection without frames as silent, and replaces it if it stays silent, even if the browser calls it open. */
  private restartWatchdog(): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => {
      if (this.source?.readyState === EventSource.OPEN) {
        this.isSilent = true;
        this.listener.onConnection("silent", this.lastFrameAt);
      }
      this.watchdog = setTimeout(() => {
        this.reportLost();
        this.connect();
      }, DEAD_MS - SILENT_MS);
    }, SILENT_MS);
  }
}
