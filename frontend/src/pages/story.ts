// Buttons that copy the text of an element of the page.

const COPIED_MS = 2000;

/** Browsers offer the clipboard only to pages by https; elsewhere the selected text is copied. */
async function copy(source: HTMLElement): Promise<boolean> {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(source.textContent ?? "");
      return true;
    } catch {
      // not allowed here
    }
  }
  source.closest("details")?.setAttribute("open", "");
  getSelection()?.selectAllChildren(source);
  return document.execCommand("copy");
}

for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-copies]")) {
  const source = document.getElementById(button.dataset["copies"]!)!;
  const label = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.textContent = (await copy(source)) ? "Copied" : "Not copied: it is selected";
    setTimeout(() => (button.textContent = label), COPIED_MS);
  });
}
