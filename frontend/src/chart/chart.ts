// A timeline's chart, composed of the other files of this folder. Only this folder uses Chart.js.
import { Chart, type ChartConfiguration, LinearScale, LineController, LineElement, PointElement } from "chart.js";
import { placeX, type Stop, type Timeline } from "../timeline/document";
import { type DrawnLine, layOut, type Point, type Range } from "../timeline/layout";
import { axes, type Frame, frameOf } from "./axes";
import { type Colours, pageColours } from "./colours";
import { colourOf, datasets } from "./datasets";
import { dotPlugin } from "./dots";
import { type Front, frontOf, type Pin } from "./front";
import type { DrawnTest } from "../timeline/why";
import { bandPlugin, breakPlugin, markPlugin } from "./overlays";

Chart.register(LineController, LineElement, PointElement, LinearScale);

export interface TimelineChart {
  canvas: HTMLCanvasElement;
  /** Makes a commit the active one; null: none. */
  activate: (stop: Stop | null) => void;
  /** Shows a part of the timeline, its values fitted. */
  show: (x: Range) => void;
  /** Marks the pinned commits. */
  pin: (pins: Pin[]) => void;
  /** Draws the test of a commit; null: none. */
  test: (test: DrawnTest | null) => void;
  /** Shades what the pointer selects, in pixels; null: nothing. */
  select: (pixels: Range | null) => void;
  /** The x at a pixel from the canvas' left edge. */
  valueAt: (pixel: number) => number;
  /** The pixel position of a commit: of its first point, or of its gap. */
  pixelOf: (stop: Stop) => { x: number; y: number };
  /** The pixels of the chart's area. */
  area: () => { left: number; right: number };
  destroy: () => void;
}

type Config = ChartConfiguration<"line", Point[]>;
type TimeChart = Chart<"line", Point[]>;

/** Draws a part of a timeline on a canvas. The page decides what the pointer does. */
export function drawTimeline(canvas: HTMLCanvasElement, timeline: Timeline, visible: Range): TimelineChart {
  const colours = pageColours();
  const lines = layOut(timeline);
  const frame = frameOf(timeline, lines, visible);
  const front: Front = { active: [], pins: [], selected: null, test: null };
  let paint = () => {};
  const chart: TimeChart = new Chart(
    canvas,
    config(timeline, lines, frame, colours, () => paint()),
  );
  const { paint: paintFront, remove } = frontOf(chart, front, colours);
  paint = paintFront;
  const change = (changes: Partial<Front>) => {
    Object.assign(front, changes);
    paint();
  };
  return {
    canvas,
    activate: (stop) => change({ active: stop === null ? [] : activePoints(chart, lines, stop, colours) }),
    show: (x) => {
      Object.assign(frame, frameOf(timeline, lines, x));
      const scale = chart.options.scales!["x"]!;
      [scale.min, scale.max] = x;
      chart.update("none");
    },
    pin: (pins) => change({ pins }),
    test: (test) => change({ test }),
    select: (selected) => change({ selected }),
    valueAt: (pixel) => chart.scales["x"]!.getValueForPixel(pixel)!,
    pixelOf: (stop) => pixelOf(chart, timeline, lines, stop),
    area: () => chart.chartArea,
    destroy: () => {
      remove();
      chart.destroy();
    },
  };
}

/** The points of a commit in pixels, and in the colours of their lines. */
function activePoints(chart: TimeChart, lines: DrawnLine[], stop: Stop, colours: Colours): Front["active"] {
  return lines.flatMap((line) => {
    const point = line.path === stop.path && line.points.find((p) => p.at === stop.at);
    if (!point) return [];
    const { x, right, y } = chart.scales;
    const place = { x: x!.getPixelForValue(point.x), y: (line.right ? right : y)!.getPixelForValue(point.y) };
    return [{ ...place, colour: colourOf(line.shown, colours) }];
  });
}

function pixelOf(chart: TimeChart, timeline: Timeline, lines: DrawnLine[], stop: Stop): { x: number; y: number } {
  const { bottom } = chart.chartArea;
  const x = chart.scales["x"]!.getPixelForValue(placeX(timeline, stop.path, stop.at));
  for (const line of lines) {
    const point = line.path === stop.path && line.points.find((p) => p.at === stop.at);
    if (point) return { x, y: chart.scales[line.right ? "right" : "y"]!.getPixelForValue(point.y) };
  }
  return { x, y: bottom - 8 }; // the height of gaps
}

function config(timeline: Timeline, lines: DrawnLine[], frame: Frame, colours: Colours, painted: () => void): Config {
  const tagged = timeline.paths.some((path) => path.tags.length > 0);
  return {
    type: "line",
    data: { datasets: datasets(timeline, lines, colours) },
    plugins: [
      bandPlugin(lines, colours),
      breakPlugin(timeline, colours),
      dotPlugin(lines, colours),
      markPlugin(timeline, colours),
      { id: "front", afterDraw: () => painted() },
    ],
    options: {
      animation: false,
      responsive: true,
      maintainAspectRatio: false,
      parsing: false,
      normalized: true,
      layout: { padding: { top: tagged ? 18 : 4, right: 6 } },
      interaction: { mode: "x", axis: "x", intersect: false },
      events: [],
      color: colours.ink,
      font: { family: colours.font },
      scales: axes(timeline, frame, colours),
    },
  };
}
