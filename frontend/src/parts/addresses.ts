// The addresses of links on a timeline's page, made from the patterns in its canvas.
import { type Stop, type Timeline } from "../timeline/document";

export interface Addresses {
  commit: (project: string, sha: string) => string;
  run: (id: number) => string;
  reproduce: (run: number, benchmark: string) => string;
  alert: (id: number) => string;
  /** In the page's own project. */
  annotation: (id: number) => string;
  /** Empty if there is no page for comparing. */
  compare: (project: string, base: string, head: string, machine: string) => string;
  /** Takes the order to measure both in pairs. */
  measure: (project: string, base: string, head: string, machine: string) => string;
}

export function addressesOf({ dataset }: HTMLCanvasElement): Addresses {
  const compared = (name: string) => (project: string, base: string, head: string, machine: string) =>
    dataset[name] && `${dataset[name].replace("SLUG", project)}?${new URLSearchParams({ base, head, machine })}`;
  const numbered = (pattern: string, id: number) => pattern.replace("/0/", `/${id}/`);
  return {
    commit: (project, sha) => dataset["commit"]!.replace("SLUG", project).replace("SHA", sha),
    run: (id) => numbered(dataset["run"]!, id),
    reproduce: (run, benchmark) => `${numbered(dataset["reproduce"]!, run)}?${new URLSearchParams({ benchmark })}`,
    alert: (id) => numbered(dataset["alert"]!, id),
    annotation: (id) => `${dataset["annotations"]}#annotation-${id}`,
    compare: compared("compare"),
    measure: compared("measure"),
  } as Addresses;
}

export function shaOf(timeline: Timeline, stop: Stop): string {
  return timeline.paths[stop.path]!.commits.sha[stop.at] ?? "";
}

/** The source of the test of a commit, by the first line of its path; null without a page for it. */
export function whyAddress({ dataset }: HTMLCanvasElement, timeline: Timeline, stop: Stop): string | null {
  const line = timeline.shown.find((one) => one.path === stop.path);
  if (!dataset["why"] || !line) return null;
  const names: Record<string, string> = {
    SLUG: line.project,
    BENCHMARK: encodeURIComponent(line.benchmark),
    METRIC: line.metric.name,
  };
  // All at once, because a benchmark may be named like a placeholder.
  const address = dataset["why"].replace(/SLUG|BENCHMARK|METRIC/g, (name) => names[name]!);
  const asked = { commit: shaOf(timeline, stop), branch: line.branch, machine: line.machine };
  return `${address}?${new URLSearchParams(asked)}`;
}

/** The source of a commit's neighbours, runs and trials: the page's own lines, or the first one of its path. */
export function aroundAddress(values: string, timeline: Timeline, stop: Stop): string {
  const address = new URL(values, location.href);
  const asked = new URLSearchParams({ around: shaOf(timeline, stop), trials: "1" });
  if (stop.path === 0) {
    const query = new URLSearchParams(location.search);
    for (const key of ["from", "to", "around", "last", "trials", "why", "part"]) query.delete(key);
    asked.forEach((value, key) => query.set(key, value));
    return `${address.pathname}?${query}`;
  }
  const line = timeline.shown.find((one) => one.path === stop.path)!;
  const own = address.pathname.replace(
    /\/p\/[^/]+\/timeline\/[^/]+\/[^/]+$/,
    `/p/${line.project}/timeline/${encodeURIComponent(line.benchmark)}/${line.metric.name}.json`,
  );
  asked.set("branch", line.branch);
  asked.set("machine", line.machine);
  return `${own}?${asked}`;
}
