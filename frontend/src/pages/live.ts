// Keeps the changing part of a page up to date: the state of a run with the end of its log, or the queue.
import { getPiece } from "../fragment";
import { gap } from "../liveness";
import { append, row, type LogDocument } from "../parts/loglines";
import { whenReleased } from "../parts/pressed";
import { listen } from "../parts/stream";

const REST_MS = 3000; // between two loads of the part
const FRESH_MS = 60_000; // after this the part is loaded in any case, because it has relative times
const SAY_MS = 10_000; // between two sentences for screen readers
const TAIL = 200; // lines of the log

interface State {
  version: string;
  progress: Record<string, { percent: number; said: string; done: number; total: number; now: string }>;
  done: boolean;
}

/** Replaces the content; parts that the reader has opened, scrolled or focused stay so. */
function replace(root: HTMLElement, fresh: ChildNode[]): void {
  const opened = new Map([...root.querySelectorAll("details[id]")].map((d) => [d.id, (d as HTMLDetailsElement).open]));
  const log = root.querySelector<HTMLElement>("#logtail");
  const following = !log || isAtEnd(log);
  const top = log?.scrollTop ?? 0;
  const focused = document.activeElement?.closest<HTMLElement>("[id]");
  root.replaceChildren(...fresh);
  for (const details of root.querySelectorAll<HTMLDetailsElement>("details[id]")) {
    details.open = opened.get(details.id) ?? details.open;
  }
  const next = root.querySelector<HTMLElement>("#logtail");
  if (next) next.scrollTop = following ? next.scrollHeight : top;
  if (focused && !focused.isConnected) {
    const same = document.getElementById(focused.id);
    (same?.querySelector("summary") ?? same)?.focus({ preventScroll: true });
  }
}

function isAtEnd(log: HTMLElement): boolean {
  return log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
}

class Part {
  private loadedAt = Date.now();
  private saidAt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private failures = 0; // of loads
  private behindSince: number | null = null; // when the page learnt of a version that it does not show yet
  private readonly saying = document.getElementById("livesaid");

  constructor(private readonly root: HTMLElement) {}

  watch(): void {
    this.scrollLog();
    if (!this.isGoing) return;
    const end = listen({
      address: this.root.dataset["stream"] ?? "",
      at: () => this.root.querySelector("#logtail li:last-child")?.id.slice(1) ?? this.version,
      heard: {
        state: (data) => this.take(data as State),
        log: (data) => this.addLines(data as LogDocument),
      },
      ask: () => this.load(),
      behindSince: () => this.behindSince,
    });
    const fresh = setInterval(() => {
      if (!this.isGoing) {
        end();
        clearInterval(fresh);
      } else if (!document.hidden && Date.now() - this.loadedAt > FRESH_MS) void this.load().catch(() => undefined);
    }, REST_MS);
  }

  private get inner(): HTMLElement | null {
    return this.root.querySelector<HTMLElement>("[data-version]");
  }

  private get isGoing(): boolean {
    return this.inner?.dataset["going"] === "yes";
  }

  private get version(): string {
    return this.inner?.dataset["version"] ?? "";
  }

  private take(state: State): void {
    for (const [run, told] of Object.entries(state.progress)) {
      const shown = this.root.querySelector<HTMLElement>(`[data-progress="${run}"]`);
      if (!shown) continue;
      shown.querySelector("progress")!.value = told.percent;
      shown.querySelector(".said")!.textContent = told.said;
      shown.querySelector(".soft")!.textContent = `${told.done} of ${told.total}: ${told.now}`;
      if (Object.keys(state.progress).length === 1) this.say(told.said);
    }
    if (state.version === this.version) return;
    this.behindSince ??= Date.now();
    this.loadSoon();
  }

  private say(sentence: string): void {
    if (!this.saying || Date.now() - this.saidAt < SAY_MS) return;
    this.saidAt = Date.now();
    this.saying.textContent = sentence;
  }

  /** At most once in REST_MS, so that a page costs no more than one without a stream. */
  private loadSoon(): void {
    if (this.timer !== undefined) return;
    const rest = this.failures ? Math.max(REST_MS, gap(this.failures, Math.random())) : REST_MS;
    const wait = Math.max(0, this.loadedAt + rest - Date.now());
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.load().catch(() => {
        this.failures += 1;
        this.loadSoon();
      });
    }, wait);
  }

  private async load(): Promise<void> {
    this.loadedAt = Date.now();
    const fresh = await getPiece(this.root.dataset["live"]!);
    whenReleased(this.root, () => {
      replace(this.root, fresh);
      if (this.root.dataset["reload"] !== undefined && !this.isGoing) location.reload(); // now there is more to see
    });
    this.failures = 0;
    this.behindSince = null;
  }

  private addLines(found: LogDocument): void {
    const log = this.root.querySelector<HTMLElement>("#logtail");
    const list = log?.querySelector<HTMLElement>(".loglines");
    if (!log || !list) return;
    const following = isAtEnd(log);
    append(
      list,
      found.lines.map((line) => row(log.dataset["page"]!, line)),
      TAIL,
    );
    if (following) log.scrollTop = log.scrollHeight;
  }

  private scrollLog(): void {
    const log = this.root.querySelector<HTMLElement>("#logtail");
    if (log) log.scrollTop = log.scrollHeight;
  }
}

document.querySelectorAll<HTMLElement>("[data-live]").forEach((root) => new Part(root).watch());
