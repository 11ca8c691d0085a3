// The chart of a timeline, also the small one of an alert: loads its values as JSON and draws them.
import { drawTimeline, type TimelineChart } from "../chart/chart";
import { submitOnChange } from "../forms";
import { byPlace, commitSentences, commitTitle, knownPlace, nextStop, stops, type Timeline } from "../timeline";
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

async function start(): Promise<void> {
  submitOnChange(document);
  const canvas = document.querySelector<HTMLCanvasElement>("canvas#chart");
  if (!canvas) return;
  const state = canvas.parentElement!.querySelector<HTMLElement>(".chartstate")!;
  try {
    const timeline = await load(canvas.dataset["values"]!);
    state.textContent = timeline.lines.length > 0 ? "" : "No commit of this range was measured.";
    if (timeline.lines.length > 0) drawChart(canvas, timeline);
  } catch (error) {
    state.textContent = `The chart could not be loaded: ${(error as Error).message}. The table below has all values.`;
  }
}

void start();
