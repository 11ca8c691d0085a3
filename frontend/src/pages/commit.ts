// Loads the parts of a page that would delay it. Without scripts, links lead to the same parts.
import { getPiece } from "../fragment";

async function fill(place: HTMLElement): Promise<void> {
  place.replaceChildren(...(await getPiece(place.dataset["part"]!)));
}

for (const place of document.querySelectorAll<HTMLElement>("[data-part]")) {
  fill(place).catch(() => undefined); // its link remains
}
