// The few steps that every part of the page takes with its elements.

/** An element that index.html has. */
export function byId<Kind extends HTMLElement = HTMLElement>(id: string): Kind {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`index.html has no #${id}`);
  return found as Kind;
}

/** A new element of a class, with text or children. */
export function make<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, className: string, ...content: (Node | string)[]): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  element.className = className;
  element.append(...content);
  return element;
}

/** A button that says what it does also to those who do not see its sign. */
export function makeButton(className: string, sign: string, press: () => void): HTMLButtonElement {
  const button = make("button", className, sign);
  button.type = "button";
  button.addEventListener("click", press);
  return button;
}

/** Reads something aloud that only the eye would notice. */
export function announce(text: string): void {
  byId("announcements").textContent = text;
}
