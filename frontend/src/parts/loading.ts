// Loads the documents of a timeline, and of the test of a commit.
import { byPlace, type SentTimeline, type Timeline, unpacked } from "../timeline/document";
import type { Why } from "../timeline/why";

export async function loadTimeline(address: string, signal: AbortSignal | null = null): Promise<Timeline> {
  return byPlace(unpacked((await loadDocument(address, signal)) as SentTimeline));
}

export async function loadWhy(address: string): Promise<Why> {
  return (await loadDocument(address, null)) as Why;
}

async function loadDocument(address: string, signal: AbortSignal | null): Promise<unknown> {
  const response = await fetch(address, { headers: { Accept: "application/json" }, signal });
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return response.json();
}
