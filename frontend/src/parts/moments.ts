// Moments that the server wrote in UTC, in the reader's own time; their titles keep UTC.
import { ownTime } from "./dom";

for (const moment of document.querySelectorAll<HTMLTimeElement>("time.moment")) {
  moment.textContent = ownTime(new Date(moment.dateTime));
}
