// Shows the meaning of a word while the pointer is on it or it has the focus. Without scripts, its title does that.
import "../parts/moments";

const GAP = 6;

const note = document.createElement("div");
note.id = "explanation";
note.setAttribute("popover", "manual");
note.setAttribute("role", "tooltip");
document.body.append(note);

let shown: HTMLElement | null = null;

/** The text of a word; its title is removed, so that the browser does not show it as well. */
function textOf(term: HTMLElement): string {
  if (term.title) {
    term.dataset["text"] = term.title;
    term.removeAttribute("title");
  }
  return term.dataset["text"] ?? "";
}

function show(term: HTMLElement): void {
  if (shown === term) return;
  hide();
  shown = term;
  note.textContent = textOf(term);
  term.setAttribute("aria-describedby", note.id);
  note.showPopover();
  const word = term.getBoundingClientRect();
  const box = note.getBoundingClientRect();
  const below = word.bottom + GAP + box.height <= innerHeight;
  const left = Math.max(GAP, Math.min(word.left, document.documentElement.clientWidth - box.width - GAP));
  note.style.left = `${left}px`;
  note.style.top = `${below ? word.bottom + GAP : Math.max(GAP, word.top - GAP - box.height)}px`;
}

function hide(): void {
  if (!shown) return;
  shown.removeAttribute("aria-describedby");
  shown = null;
  note.hidePopover();
}

function termOf(event: Event): HTMLElement | null {
  return event.target instanceof Element ? event.target.closest<HTMLElement>("a.term") : null;
}

for (const [begin, end] of [
  ["pointerover", "pointerout"],
  ["focusin", "focusout"],
] as const) {
  document.addEventListener(begin, (event) => {
    const term = termOf(event);
    if (term) show(term);
  });
  document.addEventListener(end, (event) => {
    if (termOf(event)) hide();
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hide();
});
addEventListener("scroll", hide, { capture: true, passive: true });
