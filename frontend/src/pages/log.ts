// The log of a run: new lines on arrival, more lines on request, and links to ranges of lines.
import { PATIENCE_MS } from "../fragment";
import { clicked, formatRange, parseRange, type LineRange } from "../lines";
import { element } from "../parts/dom";
import { append, numberOf, row, type LogDocument, type LogPhase } from "../parts/loglines";
import { listen } from "../parts/stream";

const MOST = 5000; // lines of a phase that are kept in the page while it grows
const WRAP = "log-wrap"; // in the browser's storage

class LogView {
  private readonly page = location.pathname;
  private readonly follow = document.querySelector<HTMLInputElement>("#follow")!;
  private readonly wrap = document.querySelector<HTMLInputElement>("#wrap")!;
  private readonly state = document.querySelector<HTMLElement>("#logstate")!;
  private range: LineRange | null = parseRange(location.hash);
  private following: number; // the number of the next line; the last one may come again
  private end = (): void => undefined;

  constructor(private readonly root: HTMLElement) {
    this.following = Math.max(1, Number(root.dataset["total"]));
    document.querySelector<HTMLElement>(".toggles")!.hidden = false;
    this.setUpToggles();
    root.addEventListener("click", (event) => this.click(event));
    window.addEventListener("hashchange", () => {
      this.range = parseRange(location.hash);
      void this.showRange();
    });
    void this.showRange();
    if (root.dataset["live"] === "yes" && root.dataset["end"] === "yes") this.listen();
  }

  private setUpToggles(): void {
    this.wrap.checked = localStorage.getItem(WRAP) !== "no";
    const wrap = () => document.body.classList.toggle("unwrapped", !this.wrap.checked);
    wrap();
    this.wrap.addEventListener("change", () => {
      localStorage.setItem(WRAP, this.wrap.checked ? "yes" : "no");
      wrap();
    });
    this.follow.checked = this.root.dataset["live"] === "yes" && this.root.dataset["end"] === "yes" && !this.range;
    this.follow.addEventListener("change", () => {
      if (this.follow.checked && this.root.dataset["end"] !== "yes") location.assign(this.page);
      this.scrollToEnd();
    });
    // A reader who scrolls up wants to read; a reader who scrolls to the end wants to follow.
    window.addEventListener("wheel", (event) => {
      if (event.deltaY < 0) this.follow.checked = false;
    });
    window.addEventListener("keydown", (event) => {
      if (["PageUp", "ArrowUp", "Home"].includes(event.key)) this.follow.checked = false;
      else if (event.key === "End") this.follow.checked = true;
    });
    this.scrollToEnd();
  }

  private scrollToEnd(): void {
    if (this.follow.checked) window.scrollTo({ top: document.documentElement.scrollHeight });
  }

  private listen(): void {
    this.end = listen({
      address: this.root.dataset["stream"] ?? "",
      at: () => String(this.following),
      heard: {
        log: (data) => this.add(data as LogDocument),
        state: (data) => {
          if ((data as { done: boolean }).done) void this.ask().then(this.end);
        },
      },
      ask: () => this.ask(),
    });
  }

  private async get(query: string): Promise<LogDocument> {
    const address = `${this.root.dataset["lines"]}?${query}`;
    const answer = await fetch(address, { signal: AbortSignal.timeout(PATIENCE_MS) });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return (await answer.json()) as LogDocument;
  }

  private async ask(): Promise<void> {
    const found = await this.get(`from=${this.following}`);
    this.add(found);
    if (found.live !== false) return;
    this.state.textContent = this.state.textContent!.replace(/,.*/s, "");
    this.end();
  }

  /** Adds new lines at the end. */
  private add(found: LogDocument): void {
    const first = found.lines[0]?.[0];
    if (first === undefined) return;
    const shown = numberOf([...this.root.querySelectorAll(".loglines > li")].at(-1));
    if (shown && first > shown + 1) for (const old of this.root.querySelectorAll(".loglines > li")) old.remove();
    for (const phase of found.phases) {
      const folder = this.folder(phase);
      const lines = found.lines.filter(([number]) => number >= phase.first && number <= phase.last);
      const list = folder.querySelector<HTMLElement>(".loglines")!;
      append(
        list,
        lines.map((line) => row(this.page, line)),
        MOST,
      );
      this.offer(folder, phase);
    }
    this.following = found.total;
    this.state.textContent = `${found.total} line${found.total === 1 ? "" : "s"}${found.live === false ? "" : ", running"}`;
    document.getElementById("nolog")?.remove();
    this.mark();
    this.scrollToEnd();
  }

  /** The fold of a phase, which is made if it is new. */
  private folder(phase: LogPhase): HTMLDetailsElement {
    let folder = this.root.querySelector<HTMLDetailsElement>(`details[data-first="${phase.first}"]`);
    if (!folder) {
      const title = element("summary", "", element("strong", "", phase.phase), " ", element("span", "soft phasetime"));
      const scroll = element("div", "logscroll", element("ol", "loglines"));
      scroll.tabIndex = 0;
      scroll.setAttribute("role", "region");
      scroll.setAttribute("aria-label", phase.phase);
      folder = element("details", "logphase", title, scroll);
      folder.dataset["first"] = String(phase.first);
      folder.open = true;
      this.root.append(folder);
    }
    folder.dataset["last"] = String(phase.last);
    const time = folder.querySelector(".phasetime");
    if (time) time.textContent = `${Math.round(phase.seconds)} s`;
    return folder;
  }

  /** Links to the lines of a phase before and after the present ones. */
  private offer(folder: HTMLElement, { first, last }: { first: number; last: number }): void {
    const list = folder.querySelector<HTMLElement>(".loglines")!;
    const [from, to] = [numberOf(list.firstElementChild), numberOf(list.lastElementChild)];
    for (const old of folder.querySelectorAll(".more")) old.remove();
    const offered = (a: number, b: number, query: string) => {
      const more = element("a", "", `Lines ${a} to ${b}`);
      more.href = `?${query}`;
      return element("p", "more", more);
    };
    if (from > first) list.parentElement!.before(offered(first, from - 1, `from=${first}&before=${from}`));
    if (to < last) list.parentElement!.after(offered(to + 1, last, `from=${to + 1}`));
  }

  private click(event: MouseEvent): void {
    const link = (event.target as Element).closest<HTMLAnchorElement>("a");
    if (!link || event.ctrlKey || event.metaKey || event.button !== 0) return;
    const line = link.closest("li");
    if (line) {
      event.preventDefault();
      this.range = clicked(numberOf(line), this.range, event.shiftKey);
      this.follow.checked = false;
      history.replaceState(null, "", formatRange(this.range));
      this.mark();
    } else if (link.closest(".more")) {
      event.preventDefault();
      void this.more(link).catch(() => location.assign(link.href));
    }
  }

  /** Loads the lines that a link offers into their fold. */
  private async more(link: HTMLAnchorElement): Promise<void> {
    const folder = link.closest<HTMLDetailsElement>("details")!;
    const [first, last] = [Number(folder.dataset["first"]), Number(folder.dataset["last"])];
    const list = folder.querySelector<HTMLElement>(".loglines")!;
    const shown = numberOf(list.firstElementChild);
    const height = document.documentElement.scrollHeight;
    const found = await this.get(new URL(link.href).search.slice(1));
    const rows = found.lines.filter(([number]) => number >= first && number <= last).map((one) => row(this.page, one));
    if (shown && numberOf(rows[0]) < shown) {
      list.prepend(...rows.filter((one) => numberOf(one) < shown));
      window.scrollBy(0, document.documentElement.scrollHeight - height); // the visible lines stay in place
    } else {
      append(list, rows, Infinity);
    }
    this.offer(folder, { first, last });
    this.mark();
  }

  /** Scrolls to the range of the address, and loads it if necessary. */
  private async showRange(): Promise<void> {
    if (!this.range) return;
    const [first] = this.range;
    if (!document.getElementById(`L${first}`) && first <= Number(this.root.dataset["total"])) {
      location.replace(`${this.page}?from=${Math.max(1, first - 20)}${formatRange(this.range)}`);
      return;
    }
    this.mark();
    document.getElementById(`L${first}`)?.scrollIntoView({ block: "center" });
  }

  private mark(): void {
    for (const old of this.root.querySelectorAll("li.chosen")) old.classList.remove("chosen");
    if (!this.range) return;
    const [first, last] = this.range;
    for (const one of this.root.querySelectorAll(".loglines > li")) {
      if (numberOf(one) >= first && numberOf(one) <= last) one.classList.add("chosen");
    }
  }
}

const root = document.getElementById("logview");
if (root) new LogView(root);
