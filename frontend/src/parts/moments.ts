// Converts the server's UTC moments to the reader's own time; their titles keep UTC. Relative times stay relative.
import { ago } from "../ago";
import { ownTime } from "./dom";

const TICK_MS = 5000;

for (const moment of document.querySelectorAll<HTMLTimeElement>("time.moment")) {
  moment.textContent = ownTime(new Date(moment.dateTime));
}

function tick(): void {
  for (const moment of document.querySelectorAll<HTMLTimeElement>("time.ago")) {
    const words = ago((Date.now() - Date.parse(moment.dateTime)) / 1000);
    if (moment.textContent !== words) moment.textContent = words;
  }
}

setInterval(tick, TICK_MS);
document.addEventListener("visibilitychange", tick);
window.addEventListener("pageshow", tick); // also for a page from the browser's cache
