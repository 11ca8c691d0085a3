// Submits a form as soon as a selection changes. Without scripts, its button does.

export function submitOnChange(root: Document): void {
  root.documentElement.classList.add("js");
  for (const form of root.querySelectorAll<HTMLFormElement>("form[data-submit-on-change]")) {
    form.addEventListener("change", (event) => {
      const select = event.target as HTMLSelectElement;
      if (select.dataset["go"] !== undefined) location.assign(select.value);
      else form.requestSubmit();
    });
  }
}
