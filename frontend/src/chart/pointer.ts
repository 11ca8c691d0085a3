// What the pointer does on the chart: a drag zooms, a click or tap opens a commit, hovering shows its tooltip.
import type { Chart, Plugin } from "chart.js";
import { nearestStop, type Point, stops, type Timeline } from "../timeline";
import type { Colours } from "./colours";

const LEAST_DRAG = 6; // pixels, up to which a drag is a click
const LEAST_ZOOM = 2; // commits

export interface PointerActions {
  openCommit: (at: number) => void;
  zoom: (from: number, to: number) => void;
}

/** A drag that is under way: pixels from the canvas' left edge. */
interface Drag {
  begin: number;
  now: number;
}

export function pointerPlugin(timeline: Timeline, actions: PointerActions, colours: Colours): Plugin<"line"> {
  let drag: Drag | null = null;
  let listeners = new AbortController();
  return {
    id: "pointer",
    start(chart) {
      listeners = new AbortController();
      listen(chart, listeners.signal, {
        down: (x) => (drag = { begin: x, now: x }),
        move: (x) => {
          if (!drag) return;
          drag.now = x;
          chart.draw();
        },
        up: (x) => {
          if (!drag) return;
          const { begin } = drag;
          drag = null;
          chart.draw();
          act(chart, timeline, actions, { begin, now: x });
        },
        cancel: () => (drag = null),
      });
    },
    stop() {
      listeners.abort();
    },
    afterDraw({ ctx, chartArea }) {
      if (!drag || !isDrag(drag)) return;
      const { begin, now } = drag;
      ctx.save();
      ctx.globalAlpha = 0.12;
      ctx.fillStyle = colours.ink;
      ctx.fillRect(Math.min(begin, now), chartArea.top, Math.abs(now - begin), chartArea.bottom - chartArea.top);
      ctx.restore();
    },
  };
}

function isDrag({ begin, now }: Drag): boolean {
  return Math.abs(now - begin) > LEAST_DRAG;
}

interface PointerHandlers {
  down: (x: number) => void;
  move: (x: number) => void;
  up: (x: number) => void;
  cancel: () => void;
}

/** Only a mouse drags: a finger that moves scrolls the page. */
function listen(chart: Chart, signal: AbortSignal, handlers: PointerHandlers): void {
  const { canvas } = chart;
  const at = (event: PointerEvent) => event.clientX - canvas.getBoundingClientRect().left;
  const on = (name: "pointerdown" | "pointermove" | "pointerup", handler: (event: PointerEvent) => void) =>
    canvas.addEventListener(name, handler, { signal });
  on("pointerdown", (event) => {
    if (event.button !== 0) return;
    handlers.down(at(event));
    if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
  });
  on("pointermove", (event) => {
    if (event.pointerType === "mouse") handlers.move(at(event));
  });
  on("pointerup", (event) => handlers.up(at(event)));
  canvas.addEventListener("pointercancel", handlers.cancel, { signal });
}

function act(chart: Chart, timeline: Timeline, actions: PointerActions, drag: Drag): void {
  const x = chart.scales["x"]!;
  if (!isDrag(drag)) {
    const at = nearestStop(stops(timeline), x.getValueForPixel(drag.now)!);
    if (at !== null) actions.openCommit(at);
    return;
  }
  const from = Math.round(x.getValueForPixel(Math.min(drag.begin, drag.now))!);
  const to = Math.round(x.getValueForPixel(Math.max(drag.begin, drag.now))!);
  const last = timeline.commits.sha.length - 1;
  if (to - from >= LEAST_ZOOM) actions.zoom(Math.max(0, from), Math.min(last, to));
}

/** Shows the tooltip of the commit nearest to the pointer, not only over a dot. */
export function followPointer(
  chart: Chart<"line", Point[]>,
  timeline: Timeline,
  activate: (at: number | null) => void,
): void {
  const all = stops(timeline);
  let last: number | null = null;
  chart.canvas.addEventListener("pointermove", (event) => {
    const { left } = chart.canvas.getBoundingClientRect();
    const at = nearestStop(all, chart.scales["x"]?.getValueForPixel(event.clientX - left) ?? 0);
    if (at !== last) activate((last = at));
  });
  chart.canvas.addEventListener("pointerleave", () => activate((last = null)));
}
