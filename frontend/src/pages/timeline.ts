// The timeline's chart, also the small one of an alert: loads the page's own address as JSON and draws it.
import { drawTimeline, type TimelineChart } from "../chart/chart";
import { submitOnChange } from "../forms";
import { sentences, step, stops, type Timeline, title } from "../timeline";
import { zoomed } from "../view";

async function load(address: string): Promise<Timeline> {
  const response = await fetch(address, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return (await response.json()) as Timeline;
}

function show(canvas: HTMLCanvasElement, timeline: Timeline): void {
  const openCommit = (at: number) =>
    location.assign(canvas.dataset["commit"]!.replace("SHA", timeline.commits.sha[at]!));
  const small = canvas.dataset["small"] !== undefined;
  const options = {
    small,
    fromZero: canvas.dataset["zero"] === "1",
    openCommit,
    zoom: (from: number, to: number) => {
      const { sha } = timeline.commits;
      if (!small) location.search = zoomed(location.search, sha[from]!, sha[to]!);
    },
  };
  let chart = drawTimeline(canvas, timeline, options);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    chart.destroy();
    chart = drawTimeline(canvas, timeline, options);
  });
  keyboard(canvas, timeline, () => chart, openCommit);
}

/** Arrows move the point, Enter opens its commit, Escape leaves it. */
function keyboard(
  canvas: HTMLCanvasElement,
  timeline: Timeline,
  chart: () => TimelineChart,
  openCommit: (at: number) => void,
): void {
  const all = stops(timeline);
  const said = document.getElementById("said")!;
  let at: number | null = null;
  const move = (to: number | null) => {
    at = to;
    chart().activate(at);
    said.textContent = at === null ? "" : [...title(timeline, at), ...sentences(timeline, at)].join(". ");
  };
  const keys: Record<string, () => void> = {
    ArrowLeft: () => move(step(all, at, -1)),
    ArrowRight: () => move(step(all, at, 1)),
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

async function start(): Promise<void> {
  submitOnChange(document);
  const canvas = document.querySelector<HTMLCanvasElement>("canvas#chart");
  if (!canvas) return;
  const state = canvas.parentElement!.querySelector<HTMLElement>(".chartstate")!;
  try {
    const timeline = await load(canvas.dataset["values"]!);
    state.textContent = timeline.lines.length > 0 ? "" : "Nothing was measured in this range.";
    if (timeline.lines.length > 0) show(canvas, timeline);
  } catch (error) {
    state.textContent = `The chart could not be loaded: ${(error as Error).message}. The table below has all values.`;
  }
}

void start();
