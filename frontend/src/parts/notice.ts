// Shows that the page is not live, and that it is again.
import { ASK_MS, sentence } from "../liveness";
import { element, ownTime } from "./dom";

const AGAIN_MS = 5000; // duration of "Live again"
const LONG_MS = 12 * 3_600_000; // after this the date is needed, too

export class Notice {
  private readonly root = element("p", "liveness");
  private timer: ReturnType<typeof setTimeout> | undefined;
  private since: number | null = null;

  constructor() {
    this.root.setAttribute("role", "status"); // set before the text, so that the text is read out
    document.body.append(this.root);
  }

  /** `askedAt`: the time of the last answered request. */
  lost(since: number, askedAt: number): void {
    this.since ??= since;
    const long = Date.now() - this.since > LONG_MS;
    const time = new Date(this.since).toLocaleTimeString(undefined, { timeStyle: "short", hourCycle: "h23" });
    this.say(sentence(long ? ownTime(new Date(this.since)) : time, Date.now() - askedAt < 2 * ASK_MS));
  }

  live(): void {
    if (this.since === null) return;
    this.since = null;
    this.say("Live again.");
    this.timer = setTimeout(() => this.say(""), AGAIN_MS);
  }

  remove(): void {
    clearTimeout(this.timer);
    this.root.remove();
  }

  private say(text: string): void {
    clearTimeout(this.timer);
    if (this.root.textContent !== text) this.root.textContent = text;
  }
}
