// Receives changes: from a stream of the server, or by polling while there is none. Shows when neither works, and keeps
// trying.
import { ASK_MS, gap, isLost, LOST_MS } from "../liveness";
import { Notice } from "./notice";

const TICK_MS = 1000;

export interface Listener {
  /** The address of the stream; "" without one. */
  address: string;
  /** The id of the last event, for a new stream. */
  at: () => string;
  /** The function for each kind of event. */
  heard: Record<string, (data: unknown) => void>;
  /** Called instead every few seconds while there is no stream. */
  ask: () => Promise<void>;
  /** The time since when something newer than the page is known; null without it. */
  behindSince?: () => number | null;
}

/** Listens while the page is visible; returns the function to end it. Browsers allow six streams per server. */
export function listen(to: Listener): () => void {
  const connection = new Connection(to);
  connection.begin();
  return () => connection.end();
}

class Connection {
  private source: EventSource | undefined;
  private again: ReturnType<typeof setTimeout> | undefined;
  private asking: ReturnType<typeof setTimeout> | undefined;
  private heardAt = Date.now(); // the page itself is that new
  private askedAt = 0;
  private shownAt = Date.now();
  private openedAt = Date.now();
  private failures = 0; // of the stream
  private unanswered = 0; // questions
  private readonly notice = new Notice();
  private readonly ticking = setInterval(() => this.tick(), TICK_MS);
  private readonly turned = () => (document.hidden ? this.rest() : this.wake());

  constructor(private readonly to: Listener) {}

  begin(): void {
    document.addEventListener("visibilitychange", this.turned);
    if (document.hidden) return;
    if (this.to.address) this.open();
    else this.askIn(ASK_MS);
  }

  end(): void {
    document.removeEventListener("visibilitychange", this.turned);
    clearInterval(this.ticking);
    this.rest();
    this.notice.remove();
  }

  private rest(): void {
    this.source?.close();
    this.source = undefined;
    clearTimeout(this.again);
    this.stopAsking();
  }

  private wake(): void {
    this.shownAt = Date.now();
    this.failures = 0;
    this.rest();
    this.askIn(0); // for changes since then
    if (this.to.address) this.open();
  }

  private tick(): void {
    if (document.hidden) return;
    const now = Date.now();
    if (this.source && isLost(now, this.heardAt, this.openedAt)) this.fail(); // it ended silently
    const behind = this.to.behindSince?.() ?? null;
    if (behind !== null && now - behind > LOST_MS) this.notice.lost(behind, 0);
    else if (isLost(now, this.heardAt, this.shownAt)) this.notice.lost(this.heardAt, this.askedAt);
    else if (now - this.heardAt <= LOST_MS) this.notice.live();
  }

  private open(): void {
    const stream = new EventSource(`${this.to.address}?at=${encodeURIComponent(this.to.at())}`);
    this.source = stream;
    this.openedAt = Date.now();
    stream.onerror = () => {
      if (this.source === stream) this.fail();
    };
    stream.addEventListener("ping", () => this.hear());
    for (const [kind, call] of Object.entries(this.to.heard)) {
      stream.addEventListener(kind, (event) => {
        this.hear();
        call(JSON.parse((event as MessageEvent<string>).data));
      });
    }
  }

  private hear(): void {
    this.heardAt = Date.now();
    this.failures = 0;
    this.stopAsking();
  }

  private fail(): void {
    this.source?.close();
    this.source = undefined;
    clearTimeout(this.again);
    this.again = setTimeout(() => this.open(), gap(this.failures++, Math.random()));
    if (this.asking === undefined) this.askIn(ASK_MS);
  }

  private askIn(wait: number): void {
    clearTimeout(this.asking);
    this.asking = setTimeout(() => void this.ask(), wait);
  }

  private stopAsking(): void {
    clearTimeout(this.asking);
    this.asking = undefined;
  }

  private async ask(): Promise<void> {
    const asking = this.asking;
    try {
      await this.to.ask();
      this.askedAt = Date.now();
      if (!this.to.address) this.heardAt = this.askedAt;
      this.unanswered = 0;
    } catch {
      this.unanswered += 1;
    }
    if (this.asking !== asking) return; // it is no longer needed
    if (this.source && !this.failures) this.stopAsking();
    else this.askIn(Math.max(ASK_MS, gap(this.unanswered, Math.random())));
  }
}
