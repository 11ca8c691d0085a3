// What the chart draws around the lines: intervals behind them, marks of changes, breaks and tags.
import type { Plugin, Scale } from "chart.js";
import { type Break, breakText, type Change, machines, marks, type MeasuredPoint, type Timeline } from "../timeline";
import { change } from "../units";
import type { Colours } from "./colours";
import * as draw from "./draw";

const CHARACTER = 6; // width of one in pixels, at 11 px

/** The 95% intervals, behind the lines. */
export function bandPlugin(timeline: Timeline, parts: MeasuredPoint[][][], colours: Colours): Plugin<"line"> {
  const names = machines(timeline);
  return {
    id: "band",
    beforeDatasetsDraw({ ctx, scales }) {
      const { x, y } = scales as { x: Scale; y: Scale };
      timeline.lines.forEach((line, i) => {
        const colour = colours.series[names.indexOf(line.machine) % colours.series.length]!;
        for (const part of parts[i]!) {
          const intervals = part.map((p) => ({
            x: x.getPixelForValue(p.x),
            low: y.getPixelForValue(p.low),
            high: y.getPixelForValue(p.high),
          }));
          draw.band(ctx, intervals, colour);
        }
      });
    },
  };
}

/** The beginnings of new environments and definitions, and the tags, behind the lines. */
export function breakPlugin(timeline: Timeline, colours: Colours): Plugin<"line"> {
  return {
    id: "breaks",
    beforeDatasetsDraw({ ctx, scales, chartArea }) {
      const x = scales["x"]!;
      ctx.save();
      ctx.font = `11px ${colours.font}`;
      ctx.strokeStyle = ctx.fillStyle = colours.soft;
      timeline.breaks.forEach((one, i) => {
        const at = x.getPixelForValue(one.at - 0.5);
        draw.line(ctx, at, chartArea.top, at, chartArea.bottom, [2, 3]);
        const y = chartArea.bottom - 16 - 15 * (i % 3);
        drawBreakLabel(
          ctx,
          timeline,
          one,
          { x: at, y, before: at - chartArea.left, after: chartArea.right - at },
          colours,
        );
      });
      drawTags(ctx, timeline, x, chartArea.top);
      ctx.restore();
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

/** A tick for each tag; its name only where it does not touch the one before. */
function drawTags(ctx: draw.Canvas, timeline: Timeline, x: Scale, top: number): void {
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

/** Change points, told apart by shape and colour, in front of the lines. */
export function markPlugin(timeline: Timeline, colours: Colours): Plugin<"line"> {
  const ordered = marks(timeline.changes).toSorted((a, b) => a.at - b.at);
  return {
    id: "marks",
    afterDatasetsDraw({ ctx, scales, chartArea }) {
      const x = scales["x"]!;
      ctx.save();
      ctx.font = `600 11px ${colours.font}`;
      ordered.forEach((one, i) => {
        const at = x.getPixelForValue(one.at);
        const next = ordered[i + 1];
        const room = (next ? x.getPixelForValue(next.at) - 8 : chartArea.right) - at;
        drawMark(ctx, one, { x: at, top: chartArea.top, bottom: chartArea.bottom, room }, colours);
      });
      ctx.restore();
    },
  };
}

interface MarkPlace {
  x: number;
  top: number;
  bottom: number;
  /** Pixels to its right until the next mark. */
  room: number;
}

/** One change point; its percentage only where there is room. */
function drawMark(ctx: draw.Canvas, one: Change, place: MarkPlace, colours: Colours): void {
  const confirmed = one.status === "confirmed";
  ctx.strokeStyle = ctx.fillStyle = one.worse ? colours.worse : colours.better;
  ctx.lineWidth = 1.5;
  ctx.globalAlpha = 0.55;
  draw.line(ctx, place.x, place.top + 24, place.x, place.bottom, confirmed ? [] : [5, 4]);
  ctx.globalAlpha = 1;
  draw.triangle(ctx, place.x, place.top + 13, one.worse, confirmed);
  const text = change(one.ratio);
  if (ctx.measureText(text).width + 10 > place.room) return;
  ctx.textAlign = "left";
  ctx.fillText(text, place.x + 10, place.top + 17);
}
