// The chart of a timeline's page: its visible part, its pinned commits, and its document.
import { type TimelineChart, drawTimeline } from "../chart/chart";
import { DARK } from "../chart/colours";
import { drawOverview, type Overview } from "../chart/overview";
import { listenToPointer } from "../chart/pointer";
import {
  isWhole,
  knownPlace,
  nearestStop,
  nextStop,
  placeX,
  placesWithin,
  type Stop,
  stopsOfPath,
  type Timeline,
} from "../timeline/document";
import { limits, type Range } from "../timeline/layout";
import { commitSentences, commitTitle } from "../timeline/readings";
import { drawnTest } from "../timeline/why";
import { clamp, isWholeRange, moved, showing, width, zoomed } from "../timeline/window";
import { type Ends, withEnds } from "../view";
import { aroundAddress, addressesOf, shaOf, whyAddress } from "./addresses";
import { cards, type Pinned } from "./cards";
import { loadTimeline, loadWhy } from "./loading";
import { Notes, type SavedNote } from "./noting";
import { whenReleased } from "./pressed";
import { showTip } from "./tip";

const LEAST_COMMITS = 4; // least number of visible commits
const LEAST_SECONDS = 3600;
const MOST_COMMITS = 2000; // with more, not all points are loaded
const MOST_TRIALS = 300; // points; with more, no single trials are loaded
const SETTLED = 200; // milliseconds after the last move before the address follows
const DOUBLE_CLICK = 500; // milliseconds within which a second click makes one
const STEP = 0.2; // of the visible part, cut off at each side by a key
const MARGIN = 0.25; // of the visible part, loaded on each side of it

export interface ExplorerPage {
  canvas: HTMLCanvasElement;
  overview: HTMLCanvasElement;
  pins: HTMLElement;
  /** The form that cards have copies of, for those who may annotate. */
  noteForm: HTMLFormElement | null;
  announcement: HTMLElement;
  /** Called when the reader has moved to another part; null: the whole. */
  followed: (ends: Ends | null) => void;
  noted: (text: string) => void;
}

/** ``whole``: the document of everything within reach; ``detail``: of the part shown first. */
export class Explorer {
  private shown: Timeline;
  private detail: Timeline;
  private chart: TimelineChart;
  private strip: Overview;
  private stops: Stop[][] = [];
  private active: Stop | null = null;
  private pinned: Pinned[] = [];
  private pinnedBefore: Pinned[] = []; // before the last click
  private clickedAt = -Infinity;
  private visible: Range;
  private detailed: Range; // the range of the loaded details
  private readonly all: Range;
  private readonly notes: Notes | null;
  private frame = 0;
  private settling: ReturnType<typeof setTimeout> | undefined;
  private loading: AbortController | null = null;

  constructor(
    private readonly page: ExplorerPage,
    private readonly whole: Timeline,
    detail: Timeline,
  ) {
    this.all = limits(whole);
    this.notes = page.noteForm && new Notes(page.noteForm, (sha, note) => this.addNote(sha, note));
    this.detail = detail;
    this.visible = clamp(limits(detail), this.all, this.least());
    this.detailed = this.visible;
    this.shown = this.fitting() ?? whole;
    this.chart = this.draw();
    this.strip = this.drawStrip();
    this.strip.show(this.visible);
    this.listen();
    matchMedia(DARK).addEventListener("change", () => {
      this.redraw();
      this.strip.destroy();
      this.strip = this.drawStrip();
      this.strip.show(this.visible);
    });
    this.note();
    if (this.isZoomed()) this.page.followed(this.ends());
  }

  reset(): void {
    this.show(this.all);
  }

  private draw(): TimelineChart {
    this.stops = this.shown.paths.map((_, path) => stopsOfPath(this.shown, path));
    return drawTimeline(this.page.canvas, this.shown, this.visible);
  }

  private drawStrip(): Overview {
    return drawOverview(this.page.overview, this.whole, this.all, (range) => this.show(range));
  }

  private redraw(): void {
    this.activate(null);
    this.chart.destroy();
    this.chart = this.draw();
    this.mark();
  }

  private least(): number {
    return Math.min(this.whole.axis === "time" ? LEAST_SECONDS : LEAST_COMMITS, this.all[1] - this.all[0]);
  }

  private isZoomed(): boolean {
    return !isWholeRange(this.visible, this.all);
  }

  /** Shows another part with the next frame; the address follows when the reader pauses. */
  private show(range: Range): boolean {
    const next = clamp(range, this.all, this.least());
    if (next[0] === this.visible[0] && next[1] === this.visible[1]) return false;
    this.visible = next;
    if (!this.frame) this.frame = requestAnimationFrame(() => this.paint());
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), SETTLED);
    return true;
  }

  private paint(): void {
    this.frame = 0;
    const fitting = this.fitting() ?? this.whole;
    this.activate(null); // another commit is under the pointer now
    if (fitting === this.shown) this.chart.show(this.visible);
    else {
      this.shown = fitting;
      this.redraw();
    }
    this.strip.show(this.visible);
  }

  private settle(): void {
    this.page.followed(this.isZoomed() ? this.ends() : null);
    this.note();
    if (!this.fitting()) void this.loadDetail();
  }

  private note(): void {
    this.page.noted(this.shown.notes.join(" "));
  }

  /** The document with all details of the visible part; null if it must be loaded. */
  private fitting(): Timeline | null {
    const needsAll = Math.max(...this.commits()) <= MOST_COMMITS;
    const needsTrials = new URLSearchParams(location.search).get("trials") === "1" && this.points() <= MOST_TRIALS;
    const has = (one: Timeline) => (isWhole(one) || !needsAll) && (one.notes.length === 0 || !needsTrials);
    if (has(this.whole)) return this.whole;
    const wasLoadedForThis = width(this.visible) > width(this.detailed) / 2;
    return this.detailCovers() && (has(this.detail) || wasLoadedForThis) ? this.detail : null;
  }

  private detailCovers(): boolean {
    const [known, all] = [this.detail.paths[0]!, this.whole.paths[0]!];
    const [from, to] = placesWithin(this.whole, 0, this.visible);
    return known.first <= all.first + from && all.first + to < known.first + known.count;
  }

  /** The number of visible commits of each branch. */
  private commits(): number[] {
    return this.whole.paths.map((_, path) => {
      const [from, to] = placesWithin(this.whole, path, this.visible);
      return to - from + 1;
    });
  }

  private points(): number {
    const commits = this.commits();
    return this.whole.shown.reduce((sum, line) => sum + commits[line.path]!, 0);
  }

  private async loadDetail(): Promise<void> {
    this.loading?.abort();
    this.loading = new AbortController();
    const visible = this.visible;
    const ends = this.ends(this.points() > MOST_TRIALS / 2 ? 0 : MARGIN);
    const { pathname } = new URL(this.page.canvas.dataset["values"]!, location.href);
    try {
      this.detail = await loadTimeline(`${pathname}${withEnds(location.search, ends)}`, this.loading.signal);
      this.detailed = visible;
      this.paint();
      this.note();
    } catch (error) {
      if ((error as Error).name !== "AbortError") this.page.noted(`The details could not be loaded: ${error}.`);
    }
  }

  /** The commits of the page's branch at the ends of the visible part, or somewhat further apart. */
  private ends(margin = 0): Ends {
    const path = this.shown.paths[0]!;
    const room = margin * width(this.visible);
    const [begin, end] = placesWithin(this.shown, 0, [this.visible[0] - room, this.visible[1] + room]);
    const sha = (at: number, by: 1 | -1) => path.commits.sha[knownPlace(path, at, by)] ?? "";
    return { from: sha(begin, -1), to: sha(end, 1) };
  }

  private activate(stop: Stop | null): void {
    if (stop?.path === this.active?.path && stop?.at === this.active?.at) return;
    this.active = stop;
    this.chart.activate(stop);
    showTip(this.chart, this.shown, stop);
  }

  /** The commit nearest to a pixel: the nearest one of each branch, and among these the one whose point is nearest. */
  private nearest(place: { x: number; y: number }): Stop | null {
    const x = this.chart.valueAt(place.x);
    const near = this.stops.map((stops) => nearestStop(stops, x)).filter((stop) => stop !== null);
    if (near.length < 2) return near[0] ?? null;
    const distance = (stop: Stop) => {
      const pixel = this.chart.pixelOf(stop);
      return Math.hypot(pixel.x - place.x, pixel.y - place.y);
    };
    return near.reduce((best, stop) => (distance(stop) < distance(best) ? stop : best));
  }

  private listen(): void {
    listenToPointer(this.page.canvas, {
      hover: (place) => this.activate(place && this.nearest(place)),
      click: (place) => {
        const stop = this.nearest(place);
        if (stop) this.click(stop);
      },
      select: (pixels) => this.chart.select(pixels),
      zoomTo: (pixels) => this.show(pixels.map((pixel) => this.chart.valueAt(pixel)) as Range),
      zoomBy: (factor, pixel) => this.show(zoomed(this.visible, this.chart.valueAt(pixel), factor)),
      moveBy: (pixels) => {
        const { left, right } = this.chart.area();
        return this.show(moved(this.visible, (-pixels * (this.visible[1] - this.visible[0])) / (right - left)));
      },
      reset: () => {
        this.pinned = this.pinnedBefore;
        this.showPins();
        this.reset();
      },
    });
    this.page.canvas.addEventListener("keydown", (event) => this.press(event));
    this.page.canvas.addEventListener("blur", () => this.activate(null));
  }

  private press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const keys: Record<string, () => void> = {
      ArrowLeft: () => this.step(-1),
      ArrowRight: () => this.step(1),
      Home: () => this.walk(this.ordered()[0] ?? null),
      End: () => this.walk(this.ordered().at(-1) ?? null),
      Enter: () => this.active && this.pin(this.active),
      Escape: () => this.escape(),
      "+": () => this.zoomKey(1 - 2 * STEP),
      "=": () => this.zoomKey(1 - 2 * STEP),
      "-": () => this.zoomKey(1 / (1 - 2 * STEP)),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** The stops of all branches from left to right. */
  private ordered(): Stop[] {
    return this.stops.length === 1 ? this.stops[0]! : this.stops.flat().sort((a, b) => a.x - b.x);
  }

  private step(by: 1 | -1): void {
    const visible = this.ordered().filter(({ x }) => x >= this.visible[0] && x <= this.visible[1]);
    this.walk(this.active ? nextStop(this.ordered(), this.active, by) : (visible.at(-1) ?? null));
  }

  private walk(stop: Stop | null): void {
    if (!stop) return;
    if (this.show(showing(this.visible, stop.x)) && this.frame) {
      cancelAnimationFrame(this.frame);
      this.paint();
    }
    this.activate(stop);
    const texts = [...commitTitle(this.shown, stop), ...commitSentences(this.shown, stop)];
    this.page.announcement.textContent = texts.join(". ");
  }

  private zoomKey(factor: number): void {
    this.show(zoomed(this.visible, this.active?.x ?? (this.visible[0] + this.visible[1]) / 2, factor));
  }

  /** Leaves the active commit; then the pinned ones; then the visible part. */
  private escape(): void {
    if (this.active) {
      this.activate(null);
      this.page.announcement.textContent = "";
    } else if (this.pinned.length > 0) {
      this.pinned = [];
      this.showPins();
    } else this.reset();
  }

  /** Pins the clicked commit. If the click is the first half of a double click, the former pins return. */
  private click(stop: Stop): void {
    const now = performance.now();
    if (now - this.clickedAt > DOUBLE_CLICK) this.pinnedBefore = this.pinned;
    this.clickedAt = now;
    this.pin(stop);
  }

  /** Pins a commit, or unpins it; a third one replaces the second. */
  private pin(stop: Stop): void {
    const sha = shaOf(this.shown, stop);
    const known = this.pinned.find((one) => shaOf(one.timeline, one.stop) === sha);
    if (known) this.unpin(known.name);
    else {
      const one = { name: this.pinned.length === 0 ? "A" : "B", timeline: this.shown, stop };
      this.pinned = [...this.pinned.slice(0, 1), one];
      this.showPins();
      void this.complete(one);
      void this.explain(one);
    }
  }

  private unpin(name: string): void {
    this.pinned = this.pinned.filter((one) => one.name !== name).map((one) => ({ ...one, name: "A" }));
    this.showPins();
  }

  private showPins(): void {
    const { pins } = this.page;
    whenReleased(pins, () => {
      const addresses = addressesOf(this.page.canvas);
      const focused = document.activeElement as HTMLElement | null;
      const actions = { addresses, unpin: (name: string) => this.unpin(name), notes: this.notes };
      pins.replaceChildren(...cards(this.pinned, actions));
      pins.hidden = this.pinned.length === 0;
      if (focused && pins.contains(focused)) focused.focus({ preventScroll: true }); // a form that has moved with it
    });
    this.mark();
  }

  /** Shows a note that was saved in a card, in all documents that have its commit. */
  private addNote(sha: string, note: SavedNote): void {
    const documents = [this.whole, this.detail, this.shown, ...this.pinned.map((one) => one.timeline)];
    for (const timeline of new Set(documents)) {
      const at = timeline.paths[0]!.commits.sha.indexOf(sha);
      if (at >= 0) timeline.annotations = [...(timeline.annotations ?? []), { at, ...note }];
    }
    this.redraw();
    this.showPins();
    this.page.announcement.textContent = "The note is saved.";
    this.page.pins.querySelector<HTMLElement>(".note a")?.focus({ preventScroll: true });
  }

  /** Marks the pinned commits in the chart, and draws the test of the last one. */
  private mark(): void {
    this.chart.pin(this.pinned.map(({ stop, name }) => ({ x: stop.x, name })));
    const tested = this.pinned.findLast((one) => one.why);
    const stop =
      tested && this.stops.flat().find((one) => shaOf(this.shown, one) === shaOf(tested.timeline, tested.stop));
    this.chart.test(tested && stop ? drawnTest(this.shown, stop, tested.why ?? null) : null);
  }

  /** Loads why a pinned commit raised no alert, or why it did. */
  private async explain(one: Pinned): Promise<void> {
    const address = whyAddress(this.page.canvas, one.timeline, one.stop);
    const sha = shaOf(one.timeline, one.stop);
    if (address === null) return;
    try {
      const why = await loadWhy(address);
      this.pinned = this.pinned.map((pinned) =>
        shaOf(pinned.timeline, pinned.stop) === sha ? { ...pinned, why } : pinned,
      );
      this.showPins();
    } catch {
      // The commit has no point on this line.
    }
  }

  /** Loads the missing facts of a pinned commit: its neighbours in outlines, its runs and trials. */
  private async complete(one: Pinned): Promise<void> {
    const sha = shaOf(one.timeline, one.stop);
    try {
      const timeline = await loadTimeline(aroundAddress(this.page.canvas.dataset["values"]!, one.timeline, one.stop));
      const at = timeline.paths[0]!.commits.sha.indexOf(sha);
      const place = this.pinned.findIndex((pinned) => shaOf(pinned.timeline, pinned.stop) === sha);
      if (at < 0 || place < 0) return;
      // Its position stays, whatever the axis of the more detailed document.
      const stop = { path: 0, at, x: placeX(one.timeline, one.stop.path, one.stop.at) };
      this.pinned = this.pinned.with(place, { ...this.pinned[place]!, timeline, stop });
      this.showPins();
    } catch {
      // The card keeps the chart's facts.
    }
  }
}
