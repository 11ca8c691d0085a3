// Loads the parts of a page that would delay it. Without scripts, the links beside them lead to the same.
import { getPiece } from "../fragment";

async function fill(place: HTMLElement): Promise<void> {
  place.replaceChildren(...(await getPiece(place.dataset["part"]!)));
}

for (const place of document.querySelectorAll<HTMLElement>("[data-part]")) {
  fill(place).catch(() => undefined); // the link beside it remains
}
