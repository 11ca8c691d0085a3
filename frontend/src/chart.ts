// The one file that knows Chart.js.
import {
  Chart,
  type ChartConfiguration,
  type ChartDataset,
  LinearScale,
  LineController,
  LineElement,
  type Plugin,
  PointElement,
  type Scale,
  Tooltip,
} from "chart.js";
import * as draw from "./draw";
import {
  type Break,
  bounds,
  breakText,
  type Change,
  gaps,
  marks,
  type Measured,
  nearest,
  type Point,
  points,
  rulings,
  sentences,
  stops,
  stretches,
  type Timeline,
  title,
  withBreaks,
} from "./timeline";
import { change, tick } from "./units";

Chart.register(LineController, LineElement, PointElement, LinearScale, Tooltip);

const SHAPES = ["circle", "rect", "rectRot", "star"] as const;
const CHARACTER = 6; // pixels that one takes at 11 px
const MANY = 250; // commits, above which lines are thinner
const FEW = 40; // commits, up to which the axis names each by its hash

export interface Options {
  fromZero: boolean;
  small: boolean;
  chosen: (at: number) => void;
  zoomed: (from: number, to: number) => void;
}

export interface Drawn {
  /** Makes a commit the active one; null: none. */
  point: (at: number | null) => void;
  destroy: () => void;
}

interface Colours {
  ink: string;
  soft: string;
  line: string;
  surface: string;
  worse: string;
  better: string;
  series: string[];
  font: string;
}

function colours(): Colours {
  const style = getComputedStyle(document.documentElement);
  const named = (name: string) => style.getPropertyValue(name).trim();
  return {
    ink: named("--ink"),
    soft: named("--soft"),
    line: named("--line"),
    surface: named("--surface"),
    worse: named("--worse"),
    better: named("--better"),
    series: [1, 2, 3, 4].map((i) => named(`--series-${i}`)),
    font: named("--sans"),
  };
}

type Dataset = ChartDataset<"line", Point[]>;

/** Each environment of each machine is a line of its own, never joined; a machine keeps its colour and shape. */
function lineDatasets(timeline: Timeline, parts: Measured[][][], colour: Colours): Dataset[] {
  const machines = machinesOf(timeline);
  const count = timeline.commits.sha.length;
  return timeline.lines.map((line, i) => {
    const own = colour.series[machines.indexOf(line.machine) % colour.series.length]!;
    return {
      data: withBreaks(parts[i]!),
      borderColor: own,
      backgroundColor: own,
      borderWidth: count > MANY ? 1.5 : 2,
      pointStyle: SHAPES[machines.indexOf(line.machine) % SHAPES.length]!,
      pointRadius: ({ chart, dataset, dataIndex }) => {
        const room = chart.width / count;
        return room > 8 ? 3 : room > 4 ? 2 : alone(dataset.data as Point[], dataIndex) ? 1.5 : 0;
      },
      pointHoverRadius: 5,
    };
  });
}

function alone(data: Point[], i: number): boolean {
  return !(data[i - 1] && Number.isFinite(data[i - 1]!.y)) && !(data[i + 1] && Number.isFinite(data[i + 1]!.y));
}

function flaggedDataset(all: Measured[], colour: Colours): Dataset {
  return {
    data: all.filter((p) => p.flags.length > 0).map(({ x, y }) => ({ x, y })),
    showLine: false,
    borderColor: colour.soft,
    backgroundColor: colour.surface,
    pointBorderWidth: 1.5,
    pointRadius: 4,
    pointHoverRadius: 5,
  };
}

function gapDataset(timeline: Timeline, colour: Colours): Dataset {
  const found = gaps(timeline);
  const failed = found.map((gap) => gap.state === "failed");
  const linked = found.map((gap) => gap.state === "linked");
  return {
    data: found.map((gap) => ({ x: gap.at, y: 0.02 })),
    yAxisID: "gaps",
    showLine: false,
    pointStyle: failed.map((f, i) => (f ? "crossRot" : linked[i] ? "rectRot" : "circle")),
    pointRadius: failed.map((f, i) => (f ? 4.5 : linked[i] ? 4 : 1.5)),
    pointBorderWidth: failed.map((f) => (f ? 2 : 1)),
    borderColor: failed.map((f) => (f ? colour.worse : colour.soft)),
    backgroundColor: linked.map((one) => (one ? colour.surface : colour.soft)),
  };
}

function machinesOf(timeline: Timeline): string[] {
  return [...new Set(timeline.lines.map((line) => line.machine))].sort();
}

/** The 95% intervals, behind the lines. */
function bandPlugin(timeline: Timeline, parts: Measured[][][], colour: Colours): Plugin<"line"> {
  const machines = machinesOf(timeline);
  return {
    id: "band",
    beforeDatasetsDraw({ ctx, scales }) {
      const { x, y } = scales as { x: Scale; y: Scale };
      timeline.lines.forEach((line, i) => {
        const own = colour.series[machines.indexOf(line.machine) % colour.series.length]!;
        for (const part of parts[i]!) {
          const reach = part.map((p) => ({
            x: x.getPixelForValue(p.x),
            low: y.getPixelForValue(p.low),
            high: y.getPixelForValue(p.high),
          }));
          draw.band(ctx, reach, own);
        }
      });
    },
  };
}

/** Change points with shape and colour, release tags, and the beginnings of new environments. */
function markPlugin(timeline: Timeline, colour: Colours): Plugin<"line"> {
  const found = marks(timeline.changes);
  return {
    id: "marks",
    beforeDatasetsDraw({ ctx, scales, chartArea }) {
      const x = scales["x"]!;
      ctx.save();
      ctx.font = `11px ${colour.font}`;
      ctx.strokeStyle = ctx.fillStyle = colour.soft;
      timeline.breaks.forEach((one, i) => {
        const at = x.getPixelForValue(one.at - 0.5);
        draw.line(ctx, at, chartArea.top, at, chartArea.bottom, [2, 3]);
        label(
          ctx,
          timeline,
          one,
          { x: at, y: chartArea.bottom - 16 - 15 * (i % 3), before: at - chartArea.left, after: chartArea.right - at },
          colour,
        );
      });
      tags(ctx, timeline, x, chartArea.top);
      ctx.restore();
    },
    afterDatasetsDraw({ ctx, scales, chartArea }) {
      const x = scales["x"]!;
      ctx.save();
      ctx.font = `600 11px ${colour.font}`;
      const ordered = found.toSorted((a, b) => a.at - b.at);
      ordered.forEach((one, i) => {
        const next = ordered[i + 1];
        const room = (next ? x.getPixelForValue(next.at) - 8 : chartArea.right) - x.getPixelForValue(one.at);
        mark(ctx, one, { x: x.getPixelForValue(one.at), top: chartArea.top, bottom: chartArea.bottom, room }, colour);
      });
      ctx.restore();
    },
  };
}

/** What a break says, on the side of it that has more room, readable over whatever lies behind. */
function label(ctx: draw.Canvas, timeline: Timeline, one: Break, place: LabelPlace, colour: Colours): void {
  const right = place.after >= place.before;
  const most = Math.floor((right ? place.after : place.before) / CHARACTER);
  const text = breakText(timeline, one, Math.max(12, Math.min(most, 60)));
  const x = place.x + (right ? 5 : -5);
  ctx.save();
  ctx.textAlign = right ? "left" : "right";
  ctx.strokeStyle = colour.surface;
  ctx.lineWidth = 4;
  ctx.setLineDash([]);
  ctx.strokeText(text, x, place.y);
  ctx.fillText(text, x, place.y);
  ctx.restore();
}

interface LabelPlace {
  x: number;
  y: number;
  /** Pixels to the left and to the right of it. */
  before: number;
  after: number;
}

function tags(ctx: draw.Canvas, timeline: Timeline, x: Scale, top: number): void {
  let free = -Infinity;
  ctx.textAlign = "center";
  for (const tag of timeline.tags.toSorted((a, b) => a.at - b.at)) {
    const at = x.getPixelForValue(tag.at);
    const width = ctx.measureText(tag.name).width + 8;
    draw.line(ctx, at, top - 4, at, top + 4);
    if (at - width / 2 < free) continue;
    ctx.fillText(tag.name, at, top - 8);
    free = at + width / 2;
  }
}

interface Place {
  x: number;
  top: number;
  bottom: number;
  room: number;
}

/** One change point; its percentage only where there is room. */
function mark(ctx: draw.Canvas, one: Change, place: Place, colour: Colours): void {
  const sure = one.status === "confirmed";
  ctx.strokeStyle = ctx.fillStyle = one.worse ? colour.worse : colour.better;
  ctx.lineWidth = 1.5;
  ctx.globalAlpha = 0.55;
  draw.line(ctx, place.x, place.top + 24, place.x, place.bottom, sure ? [] : [5, 4]);
  ctx.globalAlpha = 1;
  draw.triangle(ctx, place.x, place.top + 13, one.worse, sure);
  const text = change(one.ratio);
  if (ctx.measureText(text).width + 10 > place.room) return;
  ctx.textAlign = "left";
  ctx.fillText(text, place.x + 10, place.top + 17);
}

/** Drag over the chart to zoom; a click or tap chooses the commit. */
function pointerPlugin(timeline: Timeline, options: Options, colour: Colours): Plugin<"line"> {
  let begun: number | null = null;
  let now = 0;
  let ended = new AbortController();
  return {
    id: "pointer",
    start(chart) {
      const all = stops(timeline);
      const at = (event: PointerEvent) => event.clientX - chart.canvas.getBoundingClientRect().left;
      const when = { signal: (ended = new AbortController()).signal };
      chart.canvas.addEventListener(
        "pointerdown",
        (event) => {
          if (event.button !== 0) return;
          begun = now = at(event);
          if (event.pointerType === "mouse") chart.canvas.setPointerCapture(event.pointerId);
        },
        when,
      );
      chart.canvas.addEventListener(
        "pointermove",
        (event) => {
          if (begun === null || event.pointerType !== "mouse") return;
          now = at(event);
          chart.draw();
        },
        when,
      );
      chart.canvas.addEventListener(
        "pointerup",
        (event) => {
          if (begun === null) return;
          const x = chart.scales["x"]!;
          const [from, to] = [Math.min(begun, at(event)), Math.max(begun, at(event))].map((p) =>
            Math.round(x.getValueForPixel(p)!),
          );
          const dragged = Math.abs(at(event) - begun) > 6;
          begun = null;
          chart.draw();
          const last = timeline.commits.sha.length - 1;
          if (dragged && to! - from! >= 2) options.zoomed(Math.max(0, from!), Math.min(last, to!));
          const chosen = nearest(all, x.getValueForPixel(at(event))!);
          if (!dragged && chosen !== null) options.chosen(chosen);
        },
        when,
      );
      chart.canvas.addEventListener(
        "pointercancel",
        () => {
          begun = null;
        },
        when,
      );
    },
    stop() {
      ended.abort();
    },
    afterDraw({ ctx, chartArea }) {
      if (begun === null || Math.abs(now - begun) <= 6) return;
      ctx.save();
      ctx.globalAlpha = 0.12;
      ctx.fillStyle = colour.ink;
      ctx.fillRect(Math.min(begun, now), chartArea.top, Math.abs(now - begun), chartArea.bottom - chartArea.top);
      ctx.restore();
    },
  };
}

function config(timeline: Timeline, options: Options): ChartConfiguration<"line", Point[]> {
  const colour = colours();
  const all = timeline.lines.map(points);
  const parts = all.map(stretches);
  const [low, high] = bounds(all.flat(), options.fromZero);
  const count = timeline.commits.sha.length;
  const { unit } = timeline.metric;
  const rules = rulings(low, high, options.small ? 5 : 7);
  return {
    type: "line",
    data: {
      datasets: [
        ...lineDatasets(timeline, parts, colour),
        flaggedDataset(all.flat(), colour),
        gapDataset(timeline, colour),
      ],
    },
    plugins: [
      bandPlugin(timeline, parts, colour),
      markPlugin(timeline, colour),
      pointerPlugin(timeline, options, colour),
    ],
    options: {
      animation: false,
      responsive: true,
      maintainAspectRatio: false,
      parsing: false,
      normalized: true,
      layout: { padding: { top: timeline.tags.length > 0 ? 18 : 4, right: 6 } },
      interaction: { mode: "x", axis: "x", intersect: false },
      events: [],
      color: colour.ink,
      font: { family: colour.font },
      scales: {
        x: {
          type: "linear",
          min: -0.6,
          max: Math.max(count - 0.4, 0.6),
          grid: { display: false },
          border: { color: colour.line },
          ticks: {
            color: colour.soft,
            font: { family: colour.font, size: 11.5 },
            autoSkip: true,
            autoSkipPadding: 24,
            maxRotation: 0,
            callback: (at) => tickText(timeline, Number(at)),
          },
          afterBuildTicks: (axis) => {
            axis.ticks = spread(count).map((value) => ({ value }));
          },
        },
        y: {
          min: low,
          max: high,
          grid: { color: colour.line },
          border: { display: false },
          ticks: {
            color: colour.soft,
            font: { family: colour.font, size: 11.5 },
            callback: (value) => tick(unit, Number(value), high, rules.step),
          },
          afterBuildTicks: (axis) => {
            axis.ticks = rules.at.map((value) => ({ value }));
          },
        },
        gaps: { display: false, min: 0, max: 1 },
      },
      plugins: {
        tooltip: {
          displayColors: false,
          padding: 10,
          titleMarginBottom: 6,
          caretPadding: 10,
          titleFont: { family: colour.font, size: 12.5 },
          bodyFont: { family: colour.font, size: 12.5 },
          backgroundColor: colour.ink,
          titleColor: colour.surface,
          bodyColor: colour.surface,
          callbacks: {
            title: (items) => (items[0] ? title(timeline, Math.round(items[0].parsed.x!)) : []),
            label: () => "",
            afterBody: (items) => (items[0] ? sentences(timeline, Math.round(items[0].parsed.x!)) : []),
          },
          filter: (item, i) => i === 0 && Number.isFinite(item.parsed.y),
        },
      },
    },
  };
}

/** About eight whole numbers from 0 to count - 1. */
function spread(count: number): number[] {
  const every = Math.max(1, Math.ceil(count / 8));
  return [...Array(Math.ceil(count / every)).keys()].map((i) => i * every);
}

/** A few commits go by their hash, many by their day. */
function tickText(timeline: Timeline, at: number): string {
  const { sha, time } = timeline.commits;
  if (sha[at] === undefined) return "";
  if (sha.length <= FEW) return sha[at].slice(0, 7);
  return new Date(1000 * time[at]!).toLocaleDateString("en-GB", {
    day: "numeric",
    month: "short",
    year: "2-digit",
    timeZone: "UTC",
  });
}

/** Draws a timeline on a canvas. The page decides what becomes of a chosen commit or range. */
export function drawTimeline(canvas: HTMLCanvasElement, timeline: Timeline, options: Options): Drawn {
  const chart = new Chart(canvas, config(timeline, options));
  const point = (at: number | null) => {
    const active = at === null ? [] : elementsAt(chart, at);
    const place = active[0] ? chart.getDatasetMeta(active[0].datasetIndex).data[active[0].index]! : { x: 0, y: 0 };
    chart.setActiveElements(active);
    chart.tooltip?.setActiveElements(active, { x: place.x, y: place.y });
    chart.update("none");
  };
  follow(chart, timeline, point);
  return { point, destroy: () => chart.destroy() };
}

function elementsAt(chart: Chart<"line", Point[]>, at: number): { datasetIndex: number; index: number }[] {
  return chart.data.datasets.flatMap((dataset, datasetIndex) => {
    const index = dataset.data.findIndex((p) => p.x === at && Number.isFinite(p.y));
    return index >= 0 ? [{ datasetIndex, index }] : [];
  });
}

/** The tooltip stands at the commit nearest to the pointer, not only over a dot. */
function follow(chart: Chart<"line", Point[]>, timeline: Timeline, point: (at: number | null) => void): void {
  const all = stops(timeline);
  let last: number | null = null;
  chart.canvas.addEventListener("pointermove", (event) => {
    const { left } = chart.canvas.getBoundingClientRect();
    const at = nearest(all, chart.scales["x"]?.getValueForPixel(event.clientX - left) ?? 0);
    if (at !== last) point((last = at));
  });
  chart.canvas.addEventListener("pointerleave", () => point((last = null)));
}
