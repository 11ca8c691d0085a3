// A small chart within a page: it cannot be zoomed, and a click opens a commit.
import { drawTimeline } from "../chart/chart";
import { DARK } from "../chart/colours";
import { listenToPointer } from "../chart/pointer";
import { nearestStop, nextStop, type Stop, stopsOfPath, type Timeline } from "../timeline/document";
import { limits } from "../timeline/layout";
import { commitSentences, commitTitle } from "../timeline/readings";
import { showTip } from "./tip";

export function drawSmall(canvas: HTMLCanvasElement, timeline: Timeline, open: (stop: Stop) => void): void {
  let chart = drawTimeline(canvas, timeline, limits(timeline));
  const stops = stopsOfPath(timeline, 0);
  const announcement = document.getElementById("said")!;
  let active: Stop | null = null;
  const activate = (stop: Stop | null) => {
    active = stop;
    chart.activate(stop);
    showTip(chart, timeline, stop);
  };
  const walk = (stop: Stop | null) => {
    activate(stop);
    announcement.textContent = stop
      ? [...commitTitle(timeline, stop), ...commitSentences(timeline, stop)].join(". ")
      : "";
  };
  const nearest = (x: number) => nearestStop(stops, chart.valueAt(x));
  listenToPointer(canvas, {
    hover: (place) => activate(place && nearest(place.x)),
    click: (place) => {
      const stop = nearest(place.x);
      if (stop) open(stop);
    },
    select: () => undefined,
    zoomTo: () => undefined,
    zoomBy: () => false,
    moveBy: () => false,
    reset: () => undefined,
  });
  canvas.addEventListener("keydown", (event) => {
    const keys: Record<string, () => void> = {
      ArrowLeft: () => walk(nextStop(stops, active, -1)),
      ArrowRight: () => walk(nextStop(stops, active, 1)),
      Home: () => walk(stops[0] ?? null),
      End: () => walk(stops.at(-1) ?? null),
      Escape: () => walk(null),
      Enter: () => active && open(active),
    };
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
  canvas.addEventListener("blur", () => activate(null));
  matchMedia(DARK).addEventListener("change", () => {
    chart.destroy();
    chart = drawTimeline(canvas, timeline, limits(timeline));
  });
}
