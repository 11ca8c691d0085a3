// The facts of the commit under the pointer, next to it.
import type { TimelineChart } from "../chart/chart";
import type { Stop, Timeline } from "../timeline/document";
import { commitSentences, commitTitle } from "../timeline/readings";
import { element } from "./dom";

const SPACE = 14; // pixels between the point and the tip

/** Shows the active commit of a chart, or nothing. */
export function showTip(chart: TimelineChart, timeline: Timeline, stop: Stop | null): void {
  const frame = chart.canvas.parentElement!;
  const tip = frame.querySelector<HTMLElement>(".tip") ?? frame.appendChild(element("div", "tip"));
  tip.hidden = stop === null;
  if (stop === null) return;
  const [title, who] = commitTitle(timeline, stop);
  tip.replaceChildren(
    element("p", "tiptitle", title!),
    element("p", "tipwho", who!),
    ...commitSentences(timeline, stop).map((text) => element("p", text.startsWith(" ") ? "tipmore" : "", text)),
  );
  const { x, y } = chart.pixelOf(stop);
  const { offsetLeft, offsetTop } = chart.canvas;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const right = x + SPACE + width <= frame.clientWidth ? x + SPACE : x - SPACE - width;
  const left = Math.max(4, Math.min(right + offsetLeft, frame.clientWidth - width - 4));
  const top = Math.max(4, Math.min(y - height / 2 + offsetTop, frame.clientHeight - height - 4));
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}
