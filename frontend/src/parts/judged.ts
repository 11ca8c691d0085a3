// The server's judgement of two commits in a line. Pages never judge: they show the numbers until it has come.
import type { ShownLine } from "../timeline/document";
import { change, changeInterval, effect } from "../units";
import { element } from "./dom";

interface Judgement {
  benchmark: string;
  metric: string;
  verdict: string;
  ratio: number | null;
  low: number | null;
  high: number | null;
}

/** As in speedtrack/judging/verdicts.py: only a certain verdict has a sign and a colour. */
const SIGNS: Record<string, string> = { worse: "! ", better: "✓ " };
const answers = new Map<string, Promise<Judgement[]>>(); // by address: cards are drawn again and again

/** A ratio, and what it means as soon as the page that compares both commits (`address`, if there is one) has said it. */
export function judged(line: ShownLine, ratio: number, address: string): HTMLElement {
  const made = element("span", "", change(ratio));
  if (address) void judgement(line, address).then((found) => found && show(made, found));
  return made;
}

async function judgement({ benchmark, metric }: ShownLine, address: string): Promise<Judgement | undefined> {
  const filters = new URLSearchParams({ metric: metric.name, q: benchmark, rows: "all" });
  const source = `${address.replace("/compare/?", "/compare.json?")}&${filters}`;
  if (!answers.has(source)) answers.set(source, load(source));
  const rows = await answers.get(source)!;
  return rows.find((row) => row.benchmark === benchmark && row.metric === metric.name);
}

/** The rows; none if the server does not answer, so that the numbers remain. */
async function load(source: string): Promise<Judgement[]> {
  try {
    const response = await fetch(source, { headers: { Accept: "application/json" } });
    return response.ok ? ((await response.json()) as { rows: Judgement[] }).rows : [];
  } catch {
    answers.delete(source);
    return [];
  }
}

function show(place: HTMLElement, { metric, verdict, ratio, low, high }: Judgement): void {
  if (ratio === null) return;
  const sign = SIGNS[verdict] ?? "";
  const interval = low === null || high === null ? "" : ` (${changeInterval(ratio, low, high)})`;
  const words = sign ? effect(metric, verdict === "worse") : verdict;
  place.className = sign ? verdict : "";
  place.textContent = `${sign}${words} ${change(ratio)}${interval}`;
}
