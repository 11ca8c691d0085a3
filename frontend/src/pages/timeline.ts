// The chart of a timeline, or the small one of an alert: loads its values as JSON and draws them.
import { getPiece } from "../fragment";
import { submitOnChange } from "../forms";
import { offerLines } from "../parts/addline";
import { addressesOf, shaOf } from "../parts/addresses";
import { element, link } from "../parts/dom";
import { follow, offerPicture } from "../parts/downloads";
import { Explorer } from "../parts/explorer";
import { loadTimeline } from "../parts/loading";
import { drawSmall } from "../parts/small";
import { type Break, coverageText, type Timeline } from "../timeline/document";
import { type Ends, namesRange, withEnds, withKeys, withLine } from "../view";

/** The timeline within which the reader can move: the page's usual one, or the whole if the part is older. */
async function loadWhole(values: string, part: Timeline): Promise<Timeline> {
  if (!namesRange(location.search)) return part;
  const { pathname } = new URL(values, location.href);
  const usual = await loadTimeline(`${pathname}${withEnds(location.search, null)}`);
  if (usual.paths[0]!.first <= part.paths[0]!.first) return usual;
  return loadTimeline(`${pathname}${withKeys(withEnds(location.search, null), { last: "all" })}`);
}

async function explore(canvas: HTMLCanvasElement, part: Timeline): Promise<void> {
  const whole = await loadWhole(canvas.dataset["values"]!, part);
  const reset = document.querySelector<HTMLButtonElement>("button#reset")!;
  const note = document.getElementById("chartnote")!;
  const overview = document.querySelector<HTMLCanvasElement>("canvas#overview")!;
  overview.parentElement!.hidden = false;
  const explorer = new Explorer(
    {
      canvas,
      overview,
      pins: document.getElementById("pins")!,
      noteForm: document.querySelector<HTMLFormElement>("form#annotate"),
      announcement: document.getElementById("said")!,
      followed: (ends: Ends | null) => {
        history.replaceState(null, "", `${location.pathname}${withEnds(location.search, ends)}`);
        follow(ends);
        reset.hidden = ends === null;
      },
      noted: (text) => {
        note.textContent = text;
        note.hidden = text === "";
      },
    },
    whole,
    part,
  );
  reset.addEventListener("click", () => explorer.reset());
}

/** Fills in the page's facts about all commits, which come with the values: the measured ones, and new environments. */
function fillIn(timeline: Timeline, canvas: HTMLCanvasElement): void {
  const coverage = document.getElementById("coverage");
  if (coverage) coverage.textContent = coverageText(timeline);
  const section = document.getElementById("environments");
  if (!section || timeline.breaks.length === 0) return;
  const items = timeline.breaks.toReversed().map((one) => environmentItem(timeline, one, section, canvas));
  section.querySelector("ul")!.replaceChildren(...items);
  section.hidden = false;
}

function environmentItem(timeline: Timeline, one: Break, section: HTMLElement, canvas: HTMLCanvasElement): HTMLElement {
  const { project, commits } = timeline.paths[one.path]!;
  const sha = commits.sha[one.at]!;
  const facts = one.facts.flatMap(({ fact, before, after }, i) => [
    i > 0 ? ", " : "",
    element("span", "diff", element("strong", "", fact), ` ${before} → ${after}`),
  ]);
  return element(
    "li",
    "",
    link(one.machine, section.dataset["machine"]!.replace("NAME", one.machine)),
    ", from ",
    link(sha.slice(0, 10), addressesOf(canvas).commit(project, sha), "sha"),
    ` on: ${one.facts.length > 0 ? "" : "a new one without a known difference"}`,
    ...facts,
  );
}

/** Loads a part of the page when the reader opens it, and again if its address has changed. */
function loadWhenOpened(details: HTMLDetailsElement): void {
  let loaded: string | null = null;
  const fill = (...content: Node[]) => details.replaceChildren(details.querySelector("summary")!, ...content);
  const load = async () => {
    const part = details.dataset["part"]!;
    if (!details.open || loaded === part) return;
    loaded = part;
    try {
      const fresh = await getPiece(part);
      if (loaded === part) fill(...fresh);
    } catch (error) {
      if (loaded !== part) return;
      loaded = null; // opening it again tries again
      const why = (error as Error).message;
      fill(element("p", "soft", `The table could not be loaded: ${why}. The CSV has all values.`));
    }
  };
  details.addEventListener("toggle", () => void load());
}

/** Sends the chosen dates with the part shown now, which the form's fields do not know. */
function sendDates(form: HTMLFormElement): void {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const day = (name: string) => form.querySelector<HTMLInputElement>(`input[name=${name}]`)!.value || null;
    const dates = { since: day("since"), until: day("until"), around: null, last: null };
    if (dates.since || dates.until) location.assign(`${location.pathname}${withKeys(location.search, dates)}`);
  });
}

async function start(): Promise<void> {
  submitOnChange(document);
  document.querySelectorAll<HTMLFormElement>("form.dates").forEach(sendDates);
  document.querySelectorAll<HTMLDetailsElement>("details[data-part]").forEach(loadWhenOpened);
  const adding = document.querySelector<HTMLFormElement>("form.addline");
  if (adding) offerLines(adding, (line) => location.assign(`${location.pathname}${withLine(location.search, line)}`));
  document.querySelectorAll<HTMLAnchorElement>("a.png").forEach(offerPicture);
  const canvas = document.querySelector<HTMLCanvasElement>("canvas#chart");
  if (!canvas) return;
  const state = canvas.parentElement!.querySelector<HTMLElement>(".chartstate")!;
  try {
    const timeline = await loadTimeline(canvas.dataset["values"]!);
    fillIn(timeline, canvas);
    if (timeline.lines.length === 0) state.textContent = "No commit of this range was measured.";
    else if (canvas.dataset["small"] !== undefined) drawSmallChart(canvas, timeline);
    else await explore(canvas, timeline);
    if (timeline.lines.length > 0) state.textContent = "";
  } catch (error) {
    state.textContent = `The chart could not be loaded: ${(error as Error).message}. The table below has all values.`;
  }
}

function drawSmallChart(canvas: HTMLCanvasElement, timeline: Timeline): void {
  drawSmall(canvas, timeline, (stop) =>
    location.assign(addressesOf(canvas).commit(timeline.paths[stop.path]!.project, shaOf(timeline, stop))),
  );
}

void start();
