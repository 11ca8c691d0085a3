// A click must begin and end on the same element, so content under a pressed pointer is replaced after its release.

let pressed: Node | null = null;
const waiting = new Map<HTMLElement, () => void>();

addEventListener("pointerdown", (event) => (pressed = event.target as Node), true);
// At the click itself the elements are found: what it does to the content is shown at once.
addEventListener("click", () => (pressed = null), true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(release), true);

function release(): void {
  pressed = null;
  const calls = [...waiting.values()];
  waiting.clear();
  for (const call of calls) call();
}

/** Calls now, or after the click if a pointer is pressed within the element; a later call replaces an earlier one. */
export function whenReleased(root: HTMLElement, call: () => void): void {
  if (pressed !== null && root.contains(pressed)) {
    waiting.set(root, call);
  } else {
    waiting.delete(root);
    call();
  }
}
