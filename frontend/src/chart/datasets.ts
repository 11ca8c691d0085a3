// What the chart draws as points and lines: measurements, flagged ones, and commits without any.
import type { ChartDataset } from "chart.js";
import { gaps, joinStretches, machines, type MeasuredPoint, type Point, type Timeline } from "../timeline";
import type { Colours } from "./colours";

export type Dataset = ChartDataset<"line", Point[]>;

const SHAPES = ["circle", "rect", "rectRot", "star"] as const;
const MANY = 250; // commits, above which lines are thinner

/** One line per environment and machine, never joined; a machine keeps its colour and shape. */
export function lineDatasets(timeline: Timeline, parts: MeasuredPoint[][][], colours: Colours): Dataset[] {
  const names = machines(timeline);
  const count = timeline.commits.sha.length;
  return timeline.lines.map((line, i) => {
    const place = names.indexOf(line.machine);
    const colour = colours.series[place % colours.series.length]!;
    return {
      data: joinStretches(parts[i]!),
      borderColor: colour,
      backgroundColor: colour,
      borderWidth: count > MANY ? 1.5 : 2,
      pointStyle: SHAPES[place % SHAPES.length]!,
      pointRadius: ({ chart, dataset, dataIndex }) => {
        const room = chart.width / count;
        return room > 8 ? 3 : room > 4 ? 2 : hasNoNeighbour(dataset.data as Point[], dataIndex) ? 1.5 : 0;
      },
      pointHoverRadius: 5,
    };
  });
}

/** A point without a neighbour is part of no line: it would be invisible without a dot. */
function hasNoNeighbour(data: Point[], i: number): boolean {
  return !(data[i - 1] && Number.isFinite(data[i - 1]!.y)) && !(data[i + 1] && Number.isFinite(data[i + 1]!.y));
}

export function flaggedDataset(all: MeasuredPoint[], colours: Colours): Dataset {
  return {
    data: all.filter((p) => p.flags.length > 0).map(({ x, y }) => ({ x, y })),
    showLine: false,
    borderColor: colours.soft,
    backgroundColor: colours.surface,
    pointBorderWidth: 1.5,
    pointRadius: 4,
    pointHoverRadius: 5,
  };
}

export function gapDataset(timeline: Timeline, colours: Colours): Dataset {
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
    borderColor: failed.map((f) => (f ? colours.worse : colours.soft)),
    backgroundColor: linked.map((l) => (l ? colours.surface : colours.soft)),
  };
}
