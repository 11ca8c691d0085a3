// The cards of pinned commits: the facts and the links of each, and the differences between two.
import { quantity } from "../units";
import { cut, isSettled, type Stop, type Timeline } from "../timeline/document";
import {
  type Against,
  annotationsAt,
  breaksAt,
  breakText,
  changesAt,
  changeText,
  previousText,
  type Reading,
  readings,
  valueText,
} from "../timeline/readings";
import type { Why } from "../timeline/why";
import { withKeys } from "../view";
import { type Addresses, shaOf } from "./addresses";
import { element, link, time } from "./dom";
import { judged } from "./judged";
import type { Notes } from "./noting";

/** A pinned commit with its most detailed document. */
export interface Pinned {
  name: string;
  timeline: Timeline;
  stop: Stop;
  why?: Why;
}

export interface CardActions {
  addresses: Addresses;
  unpin: (name: string) => void;
  /** Null for those who may not annotate. */
  notes: Notes | null;
}

export function cards(pinned: Pinned[], actions: CardActions): HTMLElement[] {
  const found = pinned.map((one) => card(one, actions));
  const [first, second] = pinned;
  if (first && second) found.push(comparison(first, second, actions.addresses));
  return found;
}

function card(one: Pinned, { addresses, unpin, notes }: CardActions): HTMLElement {
  const { timeline, stop } = one;
  const path = timeline.paths[stop.path]!;
  const { commits, project, branch } = path;
  const sha = shaOf(timeline, stop);
  const close = element("button", "unpin", "×");
  close.type = "button";
  close.setAttribute("aria-label", `Unpin ${sha.slice(0, 10)}`);
  close.addEventListener("click", () => unpin(one.name));
  const where = timeline.paths.length > 1 ? `${project}, ${branch} · ` : "";
  const head = element(
    "header",
    "",
    element("span", "pinname", one.name),
    element("h3", "", link(sha.slice(0, 10), addresses.commit(project, sha), "sha"), ` ${commits.subject[stop.at]}`),
    close,
  );
  const who = element("p", "soft small", `${where}${commits.author[stop.at]}, `, time(commits.time[stop.at]!));
  const values = readings(timeline, stop);
  const made = element(
    "article",
    "pin",
    head,
    who,
    ...values.map((value) => valueList(timeline, value, sha, addresses)),
  );
  const gap = path.gaps.find((found) => found.at === stop.at);
  if (values.length === 0) made.append(element("p", "soft", gap?.reason ?? "not measured"));
  const facts = factList(timeline, stop, addresses);
  if (facts.childElementCount > 0) made.append(facts);
  if (one.why)
    made.append(whyPart(one.why, project, values[0] && timeline.shown[values[0].shown]!.benchmark, addresses));
  const linked = links(one, values, addresses);
  made.append(linked);
  if (notes?.project === project && stop.path === 0) {
    linked.append(notes.openerOf(sha));
    made.append(notes.formOf(sha) ?? "");
  }
  return made;
}

/** What the test of the commit needed and saw, and a button that queues what decides it. */
function whyPart(why: Why, project: string, benchmark: string | undefined, addresses: Addresses): HTMLElement {
  const made = element("section", "test", element("h4", "", why.is_suspicious ? "Why suspected?" : "Why no alert?"));
  made.append(element("p", "", element("strong", "", why.summary)), element("p", "soft small", `${why.judgement}.`));
  if (why.steps.length > 0) {
    const steps = why.steps.map((step) => element("li", "", step));
    made.append(element("ol", "small", ...steps));
  }
  const usual = document.querySelector<HTMLFormElement>("form#decide");
  if (!usual || !why.base || !benchmark) return made;
  const form = usual.cloneNode(true) as HTMLFormElement;
  form.removeAttribute("id");
  form.hidden = false;
  form.action = addresses.measure(project, why.base, why.sha, why.machine);
  form.querySelector<HTMLInputElement>("input[name=benchmark]")!.value = benchmark;
  made.append(form);
  return made;
}

/** A line's value, its comparisons, and its source. */
function valueList(timeline: Timeline, one: Reading, sha: string, addresses: Addresses): HTMLElement {
  const line = timeline.shown[one.shown]!;
  const list = element("dl", "reading");
  const row = (name: string, ...what: (Node | string)[]) =>
    list.append(element("dt", "", name), element("dd", "", ...what));
  row(timeline.shown.length > 1 ? line.title : "Median", valueText(timeline, one));
  const against = (base: Against, text: string) =>
    row(
      "Against",
      judged(line, base.ratio, addresses.compare(line.project, base.name, sha, line.machine)),
      ` ${cut(text, 60)}`,
    );
  if (one.previous) against(one.previous, previousText(one.previous));
  if (one.release) against(one.release, one.release.name);
  if (one.trials.length > 0) {
    const shown = one.trials.slice(0, 12).map((value) => quantity(line.metric.unit, value));
    row("Trials", `${shown.join(", ")}${one.trials.length > 12 ? ` and ${one.trials.length - 12} more` : ""}`);
  }
  if (one.run !== null) {
    const script = link("reproduce", addresses.reproduce(one.run, line.benchmark));
    row("Run", link(`${one.run}`, addresses.run(one.run)), " · ", script);
  }
  return list;
}

/** Changes, environments, tags and notes at a commit. */
function factList(timeline: Timeline, stop: Stop, addresses: Addresses): HTMLElement {
  const list = element("ul", "facts");
  for (const one of changesAt(timeline, stop)) {
    const text = changeText(timeline, { ...one, alert: null });
    const item = element("li", one.look, text);
    if (one.alert !== null) item.append(", ", link(`alert ${one.alert}`, addresses.alert(one.alert)));
    if (isSettled(one)) item.append(` (${one.alert_state})`);
    list.append(item);
  }
  for (const one of breaksAt(timeline, stop))
    list.append(element("li", "", `new environment: ${breakText(timeline, one, 200)}`));
  const tags = timeline.paths[stop.path]!.tags.filter((tag) => tag.at === stop.at);
  for (const tag of tags) list.append(element("li", "", `tag ${cut(tag.name, 60)}`));
  for (const note of annotationsAt(timeline, stop)) {
    const item = element("li", "note", `${note.author}: `);
    item.append(link(cut(note.text, 300), addresses.annotation(note.id)));
    list.append(item);
  }
  return list;
}

function links({ timeline, stop }: Pinned, values: Reading[], addresses: Addresses): HTMLElement {
  const { project, commits } = timeline.paths[stop.path]!;
  const sha = shaOf(timeline, stop);
  const machine = timeline.shown[values[0]?.shown ?? -1]?.machine ?? "";
  const parent = commits.sha[stop.at - 1];
  const compare = parent && addresses.compare(project, parent, sha, machine);
  const made = element("p", "pinlinks", link("Commit", addresses.commit(project, sha)));
  if (compare) made.append(link("Compare with its parent", compare));
  const base = link("Set as base", `${location.pathname}${withKeys(location.search, { base: sha })}`);
  base.title = "Show all values relative to those at this commit";
  if (values.length > 0) made.append(base);
  return made;
}

/** The lines with values of both commits, the second commit against the first. */
function comparison(first: Pinned, second: Pinned, addresses: Addresses): HTMLElement {
  const before = new Map(readings(first.timeline, first.stop).map((one) => [nameOf(first, one), one]));
  const title = element("h3", "", `${second.name} against ${first.name}`);
  const list = element("dl", "reading");
  const projects = [first, second].map(({ timeline, stop }) => timeline.paths[stop.path]!.project);
  const shas = [first, second].map(({ timeline, stop }) => shaOf(timeline, stop)) as [string, string];
  const compared = (machine: string) =>
    projects[0] === projects[1] ? addresses.compare(projects[0]!, ...shas, machine) : "";
  for (const after of readings(second.timeline, second.stop)) {
    const line = second.timeline.shown[after.shown]!;
    const base = before.get(nameOf(second, after));
    if (!base) continue;
    const unit = line.metric.unit;
    const values = ` ${quantity(unit, base.value)} → ${quantity(unit, after.value)}`;
    const name = second.timeline.shown.length > 1 ? line.title : line.metric.title;
    const answer = judged(line, after.value / base.value, compared(line.machine));
    list.append(element("dt", "", name), element("dd", "", answer, element("span", "soft", values)));
  }
  const made = element("article", "pin difference", element("header", "", title), list);
  if (list.childElementCount === 0) made.append(element("p", "soft", "No line has a value at both commits."));
  const address = compared(second.timeline.shown.find((line) => line.path === second.stop.path)?.machine ?? "");
  if (address) made.append(element("p", "pinlinks", link("Compare all benchmarks", address)));
  return made;
}

/** The identity of a line in documents with different lines. */
function nameOf({ timeline }: Pinned, one: Reading): string {
  return timeline.shown[one.shown]!.line;
}
