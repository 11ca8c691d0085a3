// The axes of the visible part: commits or time to the right, values upwards on one side or two.
import type { ChartConfiguration } from "chart.js";
import { type Axis, dayText, type Ticks, timeTicks } from "../axis";
import { knownPlace, placesWithin, type Timeline } from "../timeline/document";
import { type DrawnLine, type Point, type Range, visibleAxis } from "../timeline/layout";
import type { Colours } from "./colours";

const FEW_DAYS = 8; // a shorter part names commits by their hashes, since their days would be the same
const LABEL = 105; // approximate pixels for each label

type Scales = NonNullable<NonNullable<ChartConfiguration<"line", Point[]>["options"]>["scales"]>;

/** The visible part: it changes when the reader zooms, and the scales read it at each update. */
export interface Frame {
  x: Range;
  left: Axis | null;
  right: Axis | null;
}

export function frameOf(timeline: Timeline, lines: DrawnLine[], x: Range): Frame {
  return { x, left: visibleAxis(timeline, lines, false, x), right: visibleAxis(timeline, lines, true, x) };
}

/** The ends of an axis in the points' coordinates. */
export function ends({ low, high, logarithmic }: Axis): Range {
  return logarithmic ? [Math.log(low), Math.log(high)] : [low, high];
}

export function axes(timeline: Timeline, frame: Frame, colours: Colours): Scales {
  const ticks = { color: colours.soft, font: { family: colours.font, size: 11.5 } };
  let named: Ticks = [];
  const found: Scales = {
    x: {
      type: "linear",
      min: frame.x[0],
      max: frame.x[1],
      grid: { display: false },
      border: { color: colours.line },
      ticks: {
        ...ticks,
        autoSkip: true,
        autoSkipPadding: 18,
        maxRotation: 0,
        callback: (_, i) => named[i]?.[1] ?? "",
      },
      afterBuildTicks: (axis) => {
        named = xTicks(timeline, frame, Math.max(2, Math.floor(axis.width / LABEL)));
        axis.ticks = named.map(([value]) => ({ value }));
      },
    },
    y: valueScale(() => frame.left, false, ticks, colours),
    gaps: { display: false, min: 0, max: 1 },
  };
  if (frame.right) found["right"] = valueScale(() => frame.right, true, ticks, colours);
  return found;
}

function valueScale(axisOf: () => Axis | null, right: boolean, ticks: object, colours: Colours): Scales[string] {
  return {
    type: "linear",
    position: right ? "right" : "left",
    beforeUpdate: (scale) => {
      const axis = axisOf();
      if (axis) [scale.options.min, scale.options.max] = ends(axis);
    },
    grid: { color: colours.line, display: !right },
    border: { display: false },
    ticks: { ...ticks, callback: (_, i) => axisOf()?.ticks[i]?.[1] ?? "" },
    afterBuildTicks: (scale) => {
      const axis = axisOf();
      if (axis) scale.ticks = axis.ticks.map(([value]) => ({ value: axis.logarithmic ? Math.log(value) : value }));
    },
  };
}

/** The named commits of the axis, equally far apart, at steps that stay when it moves; or round moments. */
function xTicks(timeline: Timeline, { x: [from, to] }: Frame, most: number): Ticks {
  if (timeline.axis === "time") return timeTicks(from, to, most);
  const path = timeline.paths[0]!;
  const rough = Math.max(1, (to - from) / most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const every = Math.max(1, Math.round(power * [1, 2, 5, 10].find((nice) => nice * power >= rough - 1e-9)!));
  const label = labelsOf(timeline, [from, to]);
  const found: Ticks = [];
  const end = Math.min(to, path.first + path.count - 1);
  for (let x = Math.ceil(Math.max(from, path.first) / every) * every; x <= end; x += every)
    found.push([x, label(knownPlace(path, x - path.first, -1))]);
  return found;
}

/** The names of commits: their days, or their hashes if they are so close together that the days would be the same. */
function labelsOf(timeline: Timeline, visible: Range): (at: number) => string {
  const path = timeline.paths[0]!;
  const { sha, time } = path.commits;
  const [begin, end] = placesWithin(timeline, 0, visible).map(
    (at, i) => time[knownPlace(path, at, i === 0 ? 1 : -1)] ?? 0,
  );
  const close = end! - begin! < FEW_DAYS * 86400;
  return (at) => (close ? (sha[at] ?? "").slice(0, 7) : time[at] === undefined ? "" : dayText(time[at]));
}
