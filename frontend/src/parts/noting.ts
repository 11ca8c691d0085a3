// Notes written in the cards of commits: saved, and shown at once, without leaving the page.
import type { Note } from "../timeline/document";
import { element } from "./dom";

export type SavedNote = Omit<Note, "at">;

/** The forms of the commits of one project, by hash: a card is drawn again and again, its form and draft stay. */
export class Notes {
  private readonly forms = new Map<string, HTMLFormElement>();
  private readonly openers = new Map<string, HTMLButtonElement>();

  /** `pattern`: the form that the page has for those who may annotate. */
  constructor(
    private readonly pattern: HTMLFormElement,
    private readonly saved: (sha: string, note: SavedNote) => void,
  ) {}

  get project(): string {
    return this.pattern.dataset["project"]!;
  }

  /** The form of a commit; null until it was opened. */
  formOf(sha: string): HTMLFormElement | null {
    return this.forms.get(sha) ?? null;
  }

  /** The button that opens the form of a commit: always the same one, so that it can keep the focus. */
  openerOf(sha: string): HTMLButtonElement {
    const known = this.openers.get(sha);
    if (known) return known;
    const button = element("button", "plain annotate", "Annotate");
    button.type = "button";
    button.addEventListener("click", () => this.open(sha, button.closest<HTMLElement>(".pin")!));
    this.openers.set(sha, button);
    return button;
  }

  private open(sha: string, card: HTMLElement): void {
    const form = this.forms.get(sha) ?? this.make(sha);
    this.forms.set(sha, form);
    card.append(form);
    form.hidden = false;
    form.querySelector("textarea")!.focus();
  }

  private make(sha: string): HTMLFormElement {
    const form = this.pattern.cloneNode(true) as HTMLFormElement;
    form.removeAttribute("id");
    form.querySelector<HTMLInputElement>("input[name=place]")!.value = sha;
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close(form);
      else if (event.key === "Enter" && event.ctrlKey) form.requestSubmit();
      else return;
      event.preventDefault();
    });
    form.querySelector("button[type=button]")!.addEventListener("click", () => this.close(form));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.save(sha, form);
    });
    return form;
  }

  private close(form: HTMLFormElement): void {
    form.hidden = true;
    form.closest(".pin")?.querySelector<HTMLElement>("button.annotate")?.focus();
  }

  private async save(sha: string, form: HTMLFormElement): Promise<void> {
    const [button, problem] = [form.querySelector("button")!, form.querySelector<HTMLElement>("[role=alert]")!];
    if (button.disabled) return;
    button.disabled = true;
    try {
      const note = await send(form);
      this.close(form);
      this.forms.delete(sha);
      this.saved(sha, note);
    } catch (error) {
      problem.textContent = `Not saved: ${(error as Error).message}.`;
      problem.hidden = false;
    } finally {
      button.disabled = false;
    }
  }
}

async function send(form: HTMLFormElement): Promise<SavedNote> {
  const response = await fetch(form.action, { method: "POST", body: new FormData(form) });
  if (!response.headers.get("Content-Type")?.includes("json"))
    throw new Error(response.redirected ? "you are logged out" : `the server answered ${response.status}`);
  const answer = (await response.json()) as SavedNote & { problem?: string };
  if (!response.ok) throw new Error(answer.problem);
  return answer;
}
