// The overlays of the chart: intervals and ranges behind the lines, marks of changes, breaks, tags and notes.
import type { Chart, Plugin } from "chart.js";
import { type Break, type Change, isSettled, marks, placeX, type Timeline } from "../timeline/document";
import type { DrawnLine, MeasuredPoint, Range } from "../timeline/layout";
import { breakText } from "../timeline/readings";
import type { Colours } from "./colours";
import { colourOf } from "./datasets";
import * as draw from "./draw";

const CHARACTER = 6; // width of a character in pixels, at 11 px
const MANY_MARKS = 30; // changes; with more, only the confirmed ones have a line

/** Draws only within the chart's area, so that nothing outside of the visible part reaches the axes. */
function clipped({ ctx, chartArea }: Chart, paint: () => void): void {
  const { left, right, bottom } = chartArea;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, 0, right - left, bottom);
  ctx.clip();
  paint();
  ctx.restore();
}

/** The 95% intervals, behind the lines. */
export function bandPlugin(lines: DrawnLine[], colours: Colours): Plugin<"line"> {
  return {
    id: "band",
    beforeDatasetsDraw(chart) {
      const { ctx, scales } = chart;
      const x = scales["x"]!;
      const visible: Range = [x.min, x.max];
      clipped(chart, () => {
        for (const line of lines) {
          const y = scales[line.right ? "right" : "y"]!;
          for (const part of line.stretches) {
            const intervals = visiblePart(part, visible).map((p) => ({
              x: x.getPixelForValue(p.x),
              low: y.getPixelForValue(p.low),
              high: y.getPixelForValue(p.high),
            }));
            if (intervals.length > 0) draw.band(ctx, intervals, colourOf(line.shown, colours));
          }
        }
      });
    },
  };
}

/** The visible points of a stretch, and one more at either side. */
function visiblePart(part: MeasuredPoint[], [from, to]: Range): MeasuredPoint[] {
  let begin = part.findIndex((p) => p.x >= from);
  if (begin < 0) return [];
  let end = begin;
  while (end < part.length && part[end]!.x <= to) end++;
  begin = Math.max(0, begin - 1);
  return part.slice(begin, end + 1);
}

/** The beginnings of new environments and definitions, the tags and the notes, behind the lines. */
export function breakPlugin(timeline: Timeline, colours: Colours): Plugin<"line"> {
  return {
    id: "breaks",
    beforeDatasetsDraw(chart) {
      const { ctx, scales, chartArea } = chart;
      const x = scales["x"]!;
      clipped(chart, () => {
        ctx.font = `11px ${colours.font}`;
        ctx.strokeStyle = ctx.fillStyle = colours.soft;
        timeline.breaks.forEach((one, i) => {
          const at = x.getPixelForValue(placeX(timeline, one.path, one.at - 0.5));
          if (at < chartArea.left || at > chartArea.right) return;
          draw.line(ctx, at, chartArea.top, at, chartArea.bottom, [2, 3]);
          const y = chartArea.bottom - 16 - 15 * (i % 3);
          const place = { x: at, y, before: at - chartArea.left, after: chartArea.right - at };
          drawBreakLabel(ctx, timeline, one, place, colours);
        });
        const pixel = (path: number, at: number) => x.getPixelForValue(placeX(timeline, path, at));
        drawTags(ctx, timeline, pixel, chartArea);
        for (const note of timeline.annotations ?? []) draw.note(ctx, pixel(0, note.at), chartArea.bottom - 6);
      });
    },
  };
}

interface LabelPlace {
  x: number;
  y: number;
  /** Pixels to the left and to the right of it. */
  before: number;
  after: number;
}

/** The text of a break, on its side with more room; outlined, so that it is legible over lines. */
function drawBreakLabel(ctx: draw.Canvas, timeline: Timeline, one: Break, place: LabelPlace, colours: Colours): void {
  const right = place.after >= place.before;
  const most = Math.floor((right ? place.after : place.before) / CHARACTER);
  const text = breakText(timeline, one, Math.max(12, Math.min(most, 60)));
  const x = place.x + (right ? 5 : -5);
  ctx.save();
  ctx.textAlign = right ? "left" : "right";
  ctx.strokeStyle = colours.surface;
  ctx.lineWidth = 4;
  ctx.setLineDash([]);
  ctx.strokeText(text, x, place.y);
  ctx.fillText(text, x, place.y);
  ctx.restore();
}

/** A tick for each tag, with its name if it does not touch the one before. */
function drawTags(
  ctx: draw.Canvas,
  timeline: Timeline,
  pixel: (path: number, at: number) => number,
  { left, right, top }: { left: number; right: number; top: number },
): void {
  const tags = timeline.paths.flatMap((path, i) => path.tags.map((tag) => ({ at: pixel(i, tag.at), name: tag.name })));
  let free = left;
  ctx.textAlign = "center";
  for (const { at, name } of tags.toSorted((a, b) => a.at - b.at)) {
    if (at < left || at > right) continue;
    const width = ctx.measureText(name).width + 8;
    draw.line(ctx, at, top - 4, at, top + 4);
    if (at - width / 2 < free || at + width / 2 > right + 4) continue;
    ctx.fillText(name, at, top - 8);
    free = at + width / 2;
  }
}

/** Changes, distinguished by shape and colour, in front of the lines; a change of several commits shades its range. */
export function markPlugin(timeline: Timeline, colours: Colours): Plugin<"line"> {
  const ordered = marks(timeline)
    .map((one) => ({ one, x: changeX(timeline, one, 0), begin: changeX(timeline, one, one.width - 0.5) }))
    .toSorted((a, b) => a.x - b.x);
  return {
    id: "marks",
    beforeDatasetsDraw(chart) {
      const { ctx, scales, chartArea } = chart;
      clipped(chart, () => {
        ctx.globalAlpha = 0.13;
        for (const { one, x, begin } of ordered) {
          if (one.width <= 1) continue;
          const [left, right] = [begin, x].map((at) => scales["x"]!.getPixelForValue(at)) as [number, number];
          ctx.fillStyle = colourOfChange(one, colours);
          ctx.fillRect(left, chartArea.top, Math.max(right - left, 2), chartArea.bottom - chartArea.top);
        }
      });
    },
    afterDatasetsDraw(chart) {
      const { ctx, scales, chartArea } = chart;
      const visible = ordered
        .map(({ one, x }) => ({ one, at: scales["x"]!.getPixelForValue(x) }))
        .filter(({ at }) => at >= chartArea.left - 1 && at <= chartArea.right + 1);
      ctx.save();
      ctx.font = `600 11px ${colours.font}`;
      visible.forEach(({ one, at }, i) => {
        const next = visible[i + 1];
        const room = (next ? next.at - 8 : chartArea.right) - at;
        const lined = one.status === "confirmed" || visible.length <= MANY_MARKS;
        drawMark(ctx, one, { x: at, top: chartArea.top, bottom: chartArea.bottom, room, lined }, colours);
      });
      ctx.restore();
    },
  };
}

function changeX(timeline: Timeline, one: Change, before: number): number {
  return placeX(timeline, timeline.shown[one.shown]!.path, one.at - before);
}

interface MarkPlace {
  x: number;
  top: number;
  bottom: number;
  /** Pixels to its right until the next mark. */
  room: number;
  /** Whether a line leads down from it. */
  lined: boolean;
}

/** The colour of a change; that of secondary text once its alert is settled. */
export function colourOfChange({ look }: Change, colours: Colours): string {
  return look === "settled" ? colours.soft : colours[look];
}

/** One change point, struck through if its alert is settled; with its percentage if there is room. */
function drawMark(ctx: draw.Canvas, one: Change, place: MarkPlace, colours: Colours): void {
  const confirmed = one.status === "confirmed";
  const settled = isSettled(one);
  ctx.strokeStyle = ctx.fillStyle = colourOfChange(one, colours);
  ctx.lineWidth = 1.5;
  ctx.globalAlpha = 0.55;
  if (place.lined && !settled) draw.line(ctx, place.x, place.top + 24, place.x, place.bottom, confirmed ? [] : [5, 4]);
  ctx.globalAlpha = 1;
  draw.disc(ctx, place.x, place.top + 13, one.sign, confirmed && !settled, colours.surface);
  if (settled) draw.line(ctx, place.x - 8, place.top + 20, place.x + 8, place.top + 6);
  const text = `${one.words}${settled ? ` ${one.alert_state}` : ""}`;
  if (ctx.measureText(text).width + 10 > place.room) return;
  ctx.textAlign = "left";
  ctx.fillText(text, place.x + 10, place.top + 17);
}
