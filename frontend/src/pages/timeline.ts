// The chart of a timeline, also the small one of an alert: loads its values as JSON and draws them.
import { drawTimeline, type TimelineChart } from "../chart/chart";
import { submitOnChange } from "../forms";
import {
  type Break,
  byPlace,
  commitSentences,
  commitTitle,
  coverageText,
  knownPlace,
  nextStop,
  stops,
  type Timeline,
} from "../timeline";
import { zoomQuery } from "../view";

async function load(address: string): Promise<Timeline> {
  const response = await fetch(address, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return byPlace((await response.json()) as Timeline);
}

function drawChart(canvas: HTMLCanvasElement, timeline: Timeline): void {
  const openCommit = (at: number) =>
    location.assign(canvas.dataset["commit"]!.replace("SHA", timeline.commits.sha[at]!));
  const small = canvas.dataset["small"] !== undefined;
  const options = {
    small,
    fromZero: canvas.dataset["zero"] === "1",
    openCommit,
    zoom: (from: number, to: number) => {
      const { sha } = timeline.commits;
      const [begin, end] = [knownPlace(timeline, from, -1), knownPlace(timeline, to, 1)];
      if (!small) location.search = zoomQuery(location.search, sha[begin]!, sha[end]!);
    },
  };
  let chart = drawTimeline(canvas, timeline, options);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    chart.destroy();
    chart = drawTimeline(canvas, timeline, options);
  });
  listenToKeys(canvas, timeline, () => chart, openCommit);
}

/** Arrow keys, Home and End move the active commit, Enter opens it, Escape deactivates it. */
function listenToKeys(
  canvas: HTMLCanvasElement,
  timeline: Timeline,
  chart: () => TimelineChart,
  openCommit: (at: number) => void,
): void {
  const all = stops(timeline);
  const announcement = document.getElementById("said")!;
  let at: number | null = null;
  const move = (to: number | null) => {
    at = to;
    chart().activate(at);
    announcement.textContent =
      at === null ? "" : [...commitTitle(timeline, at), ...commitSentences(timeline, at)].join(". ");
  };
  const keys: Record<string, () => void> = {
    ArrowLeft: () => move(nextStop(all, at, -1)),
    ArrowRight: () => move(nextStop(all, at, 1)),
    Home: () => move(all[0] ?? null),
    End: () => move(all[all.length - 1] ?? null),
    Escape: () => move(null),
    Enter: () => {
      if (at !== null) openCommit(at);
    },
  };
  canvas.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
  canvas.addEventListener("blur", () => move(null));
}

/** What the page says of all commits comes with the chart's values: how many are measured, and new environments. */
function fillIn(timeline: Timeline, canvas: HTMLCanvasElement): void {
  const coverage = document.getElementById("coverage");
  if (coverage) coverage.textContent = coverageText(timeline);
  const section = document.getElementById("environments");
  if (!section || timeline.breaks.length === 0) return;
  const items = timeline.breaks.toReversed().map((one) => environmentItem(timeline, one, section, canvas));
  section.querySelector("ul")!.replaceChildren(...items);
  section.hidden = false;
}

function environmentItem(timeline: Timeline, one: Break, section: HTMLElement, canvas: HTMLCanvasElement): HTMLElement {
  const item = document.createElement("li");
  const sha = timeline.commits.sha[one.at]!;
  item.append(
    link(one.machine, section.dataset["machine"]!.replace("NAME", one.machine)),
    ", from ",
    link(sha.slice(0, 10), canvas.dataset["commit"]!.replace("SHA", sha), "sha"),
    ` on: ${one.facts.length > 0 ? "" : "a new one without a known difference"}`,
  );
  one.facts.forEach(({ fact, before, after }, i) => {
    const name = document.createElement("strong");
    name.textContent = fact;
    const difference = document.createElement("span");
    difference.className = "diff";
    difference.append(name, ` ${before} → ${after}`);
    item.append(i > 0 ? ", " : "", difference);
  });
  return item;
}

function link(text: string, address: string, className = ""): HTMLElement {
  const made = document.createElement("a");
  made.textContent = text;
  made.href = address;
  made.className = className;
  return made;
}

/** Loads a part of the page once, when the reader opens it. */
function loadWhenOpened(details: HTMLDetailsElement): void {
  let loaded = false;
  const load = async () => {
    if (!details.open || loaded) return;
    loaded = true;
    const response = await fetch(details.dataset["part"]!);
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    const fresh = document.createElement("template");
    fresh.innerHTML = await response.text();
    details.replaceChildren(details.querySelector("summary")!, fresh.content);
  };
  details.addEventListener("toggle", () =>
    load().catch((error: Error) => {
      details.querySelector("p")!.textContent =
        `The table could not be loaded: ${error.message}. The CSV has all values.`;
    }),
  );
}

async function start(): Promise<void> {
  submitOnChange(document);
  document.querySelectorAll<HTMLDetailsElement>("details[data-part]").forEach(loadWhenOpened);
  const canvas = document.querySelector<HTMLCanvasElement>("canvas#chart");
  if (!canvas) return;
  const state = canvas.parentElement!.querySelector<HTMLElement>(".chartstate")!;
  try {
    const timeline = await load(canvas.dataset["values"]!);
    state.textContent = timeline.lines.length > 0 ? "" : "No commit of this range was measured.";
    fillIn(timeline, canvas);
    if (timeline.lines.length > 0) drawChart(canvas, timeline);
  } catch (error) {
    state.textContent = `The chart could not be loaded: ${(error as Error).message}. The table below has all values.`;
  }
}

void start();
