// The points and lines of the chart: measurements, unreliable ones, single trials, and commits without any.
import type { ChartDataset } from "chart.js";
import { gaps, placeX, type Timeline } from "../timeline/document";
import { type DrawnLine, joinStretches, type Point } from "../timeline/layout";
import type { Colours } from "./colours";

export type Dataset = ChartDataset<"line", Point[]>;

const COLOURS = 4; // further lines are dashed
export const DASH = [6, 4];
const MANY = 250; // points; with more, lines are thinner

export function colourOf(shown: number, colours: Colours): string {
  return colours.series[shown % colours.series.length]!;
}

/** All datasets; the lines' datasets come first, in order. */
export function datasets(timeline: Timeline, lines: DrawnLine[], colours: Colours): Dataset[] {
  return [
    ...lines.map((line) => lineDataset(line, colours)),
    ...lines.map((line) => lonePoints(line, colours)),
    ...lines.filter((line) => line.points.some((p) => p.doubtful)).map((line) => doubtfulPoints(line, colours)),
    ...lines.filter((line) => line.trials.length > 0).map((line) => trialPoints(line, colours)),
    ...lines.filter((line) => line.voidTrials.length > 0).map((line) => voidPoints(line, colours)),
    ...timeline.paths.map((_, path) => gapDataset(timeline, path, colours)),
  ];
}

/** One line per environment, never joined. */
function lineDataset(line: DrawnLine, colours: Colours): Dataset {
  const colour = colourOf(line.shown, colours);
  return {
    data: joinStretches(line.stretches),
    yAxisID: line.right ? "right" : "y",
    borderColor: colour,
    backgroundColor: colour,
    borderWidth: line.points.length > MANY ? 1.5 : 2,
    borderDash: line.shown >= COLOURS ? DASH : [],
    pointRadius: 0,
  };
}

/** Points without a neighbour, which belong to no line: they would be invisible without dots. */
function lonePoints(line: DrawnLine, colours: Colours): Dataset {
  const alone = line.stretches.filter((part) => part.length === 1).map((part) => part[0]!);
  const colour = colourOf(line.shown, colours);
  return dots(alone, line, { backgroundColor: colour, borderColor: colour, pointRadius: 2 });
}

function doubtfulPoints(line: DrawnLine, colours: Colours): Dataset {
  const doubtful = line.points.filter((p) => p.doubtful);
  const colour = colourOf(line.shown, colours);
  return dots(doubtful, line, { borderColor: colour, backgroundColor: colours.surface, pointRadius: 4 });
}

function trialPoints(line: DrawnLine, colours: Colours): Dataset {
  const colour = `${colourOf(line.shown, colours)}88`;
  return dots(line.trials, line, { borderColor: colour, backgroundColor: colour, pointRadius: 1.5 });
}

function voidPoints(line: DrawnLine, colours: Colours): Dataset {
  const look = { borderColor: colours.soft, backgroundColor: colours.surface, pointRadius: 2 };
  return dots(line.voidTrials, line, look);
}

function dots(data: Point[], line: DrawnLine, look: Partial<Dataset>): Dataset {
  return {
    data,
    yAxisID: line.right ? "right" : "y",
    showLine: false,
    pointBorderWidth: 1.5,
    ...look,
  };
}

function gapDataset(timeline: Timeline, path: number, colours: Colours): Dataset {
  const found = gaps(timeline, path);
  const failed = found.map((gap) => gap.state === "failed");
  const linked = found.map((gap) => gap.state === "linked");
  return {
    data: found.map((gap) => ({ x: placeX(timeline, path, gap.at), y: 0.02 })),
    yAxisID: "gaps",
    showLine: false,
    pointStyle: failed.map((f, i) => (f ? "crossRot" : linked[i] ? "rectRot" : "circle")),
    pointRadius: failed.map((f, i) => (f ? 4.5 : linked[i] ? 4 : 1.5)),
    pointBorderWidth: failed.map((f) => (f ? 2 : 1)),
    borderColor: failed.map((f) => (f ? colours.worse : colours.soft)),
    backgroundColor: linked.map((l) => (l ? colours.surface : colours.soft)),
  };
}
