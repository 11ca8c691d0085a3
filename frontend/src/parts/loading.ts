// Loads documents of a timeline.
import { byPlace, type Timeline } from "../timeline/document";

export async function loadTimeline(address: string, signal: AbortSignal | null = null): Promise<Timeline> {
  const response = await fetch(address, { headers: { Accept: "application/json" }, signal });
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return byPlace((await response.json()) as Timeline);
}
