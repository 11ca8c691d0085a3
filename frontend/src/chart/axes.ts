// The axes: commits to the right, values upwards.
import type { ChartConfiguration } from "chart.js";
import { axisTicks, bounds, type MeasuredPoint, type Point, type Timeline } from "../timeline";
import { tick } from "../units";
import type { Colours } from "./colours";

const FEW = 40; // commits, up to which the axis names each by its hash
const LABELS = 8; // of commits, about

type Scales = NonNullable<NonNullable<ChartConfiguration<"line", Point[]>["options"]>["scales"]>;

export interface AxisOptions {
  fromZero: boolean;
  small: boolean;
}

export function axes(timeline: Timeline, all: MeasuredPoint[], options: AxisOptions, colours: Colours): Scales {
  const count = timeline.commits.sha.length;
  const [low, high] = bounds(all, options.fromZero);
  const rules = axisTicks(low, high, options.small ? 5 : 7);
  const ticks = { color: colours.soft, font: { family: colours.font, size: 11.5 } };
  return {
    x: {
      type: "linear",
      min: -0.6,
      max: Math.max(count - 0.4, 0.6),
      grid: { display: false },
      border: { color: colours.line },
      ticks: {
        ...ticks,
        autoSkip: true,
        autoSkipPadding: 24,
        maxRotation: 0,
        callback: (at) => commitLabel(timeline, Number(at)),
      },
      afterBuildTicks: (axis) => {
        axis.ticks = labelledCommits(count).map((value) => ({ value }));
      },
    },
    y: {
      min: low,
      max: high,
      grid: { color: colours.line },
      border: { display: false },
      ticks: { ...ticks, callback: (value) => tick(timeline.metric.unit, Number(value), high, rules.step) },
      afterBuildTicks: (axis) => {
        axis.ticks = rules.at.map((value) => ({ value }));
      },
    },
    gaps: { display: false, min: 0, max: 1 },
  };
}

/** About LABELS places from 0 to count - 1, equally far apart. */
function labelledCommits(count: number): number[] {
  const every = Math.max(1, Math.ceil(count / LABELS));
  return [...Array(Math.ceil(count / every)).keys()].map((i) => i * every);
}

/** A commit's hash where there are few, else its day. */
function commitLabel(timeline: Timeline, at: number): string {
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
