// A timeline's chart, put together from the files beside this one. Only this folder knows Chart.js.
import {
  Chart,
  type ChartConfiguration,
  LinearScale,
  LineController,
  LineElement,
  PointElement,
  Tooltip,
} from "chart.js";
import { commitSentences, commitTitle, type Point, points, stretches, type Timeline } from "../timeline";
import { axes, type AxisOptions } from "./axes";
import { type Colours, pageColours } from "./colours";
import { flaggedDataset, gapDataset, lineDatasets } from "./datasets";
import { bandPlugin, breakPlugin, markPlugin } from "./overlays";
import { followPointer, type PointerActions, pointerPlugin } from "./pointer";
import { snapshotPlugin } from "./snapshot";

Chart.register(LineController, LineElement, PointElement, LinearScale, Tooltip);

export interface ChartOptions extends AxisOptions, PointerActions {}

export interface TimelineChart {
  /** Makes a commit the active one, with its tooltip; null: none. */
  activate: (at: number | null) => void;
  destroy: () => void;
}

type Config = ChartConfiguration<"line", Point[]>;

/** Draws a timeline on a canvas. The page decides what happens with a chosen commit or range. */
export function drawTimeline(canvas: HTMLCanvasElement, timeline: Timeline, options: ChartOptions): TimelineChart {
  const chart = new Chart(canvas, config(timeline, options));
  const activate = (at: number | null) => {
    const active = at === null ? [] : elementsAt(chart, at);
    const place = active[0] ? chart.getDatasetMeta(active[0].datasetIndex).data[active[0].index]! : { x: 0, y: 0 };
    chart.setActiveElements(active);
    chart.tooltip?.setActiveElements(active, { x: place.x, y: place.y });
    chart.render(); // not update: that computes all points again
  };
  followPointer(chart, timeline, activate);
  return { activate, destroy: () => chart.destroy() };
}

function elementsAt(chart: Chart<"line", Point[]>, at: number): { datasetIndex: number; index: number }[] {
  return chart.data.datasets.flatMap((dataset, datasetIndex) => {
    const index = dataset.data.findIndex((p) => p.x === at && Number.isFinite(p.y));
    return index >= 0 ? [{ datasetIndex, index }] : [];
  });
}

function config(timeline: Timeline, options: ChartOptions): Config {
  const colours = pageColours();
  const byLine = timeline.lines.map(points);
  const all = byLine.flat();
  const parts = byLine.map((line) => stretches(line, timeline.step));
  return {
    type: "line",
    data: {
      datasets: [
        ...lineDatasets(timeline, parts, colours),
        flaggedDataset(all, colours),
        gapDataset(timeline, colours),
      ],
    },
    plugins: [
      bandPlugin(timeline, parts, colours),
      breakPlugin(timeline, colours),
      markPlugin(timeline, colours),
      pointerPlugin(timeline, options, colours),
      snapshotPlugin(),
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
      color: colours.ink,
      font: { family: colours.font },
      scales: axes(timeline, all, options, colours),
      plugins: { tooltip: tooltip(timeline, colours) },
    },
  };
}

type TooltipOptions = NonNullable<NonNullable<NonNullable<Config["options"]>["plugins"]>["tooltip"]>;

/** One tooltip per commit, not per point: all that is known of the commit. */
function tooltip(timeline: Timeline, colours: Colours): TooltipOptions {
  const font = { family: colours.font, size: 12.5 };
  return {
    displayColors: false,
    padding: 10,
    titleMarginBottom: 6,
    caretPadding: 10,
    titleFont: font,
    bodyFont: font,
    backgroundColor: colours.ink,
    titleColor: colours.surface,
    bodyColor: colours.surface,
    callbacks: {
      title: (items) => (items[0] ? commitTitle(timeline, Math.round(items[0].parsed.x!)) : []),
      label: () => "",
      afterBody: (items) => (items[0] ? commitSentences(timeline, Math.round(items[0].parsed.x!)) : []),
    },
    filter: (item, i) => i === 0 && Number.isFinite(item.parsed.y),
  };
}
