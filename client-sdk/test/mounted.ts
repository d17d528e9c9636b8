// A page of React in a small DOM. What is rendered is text, so that a test can compare it.
import { Window } from "happy-dom";
import type { ReactNode } from "react";

/** Before React's DOM is loaded: it looks for these when it is. */
const window = new Window();
const [addEventListener, removeEventListener] = [window.addEventListener.bind(window), window.removeEventListener.bind(window)];
Object.assign(globalThis, { window, document: window.document, addEventListener, removeEventListener, IS_REACT_ACT_ENVIRONMENT: true });
const { act } = await import("react");
const { createRoot, hydrateRoot } = await import("react-dom/client");

export { act };

/** Tells of a change of the page. */
export function tell(event: "focus" | "offline" | "online"): Promise<void> {
  return act(async () => void window.dispatchEvent(new window.Event(event)));
}

export interface Mounted {
  readonly text: string;
  render(node: ReactNode): Promise<void>;
  unmount(): Promise<void>;
  /** What React had to mend. */
  readonly errors: readonly unknown[];
}

/** Renders a page, or throws what its components throw; with `html`, over what a server rendered. */
export async function mount(node: ReactNode, html?: string): Promise<Mounted> {
  const container = document.createElement("div");
  const errors: unknown[] = [];
  const options = { onRecoverableError: (error: unknown) => void errors.push(error) };
  if (html !== undefined) container.innerHTML = html;
  const root = await act(() => {
    if (html !== undefined) return hydrateRoot(container, node, options);
    const made = createRoot(container, options);
    made.render(node);
    return made;
  });
  return {
    errors,
    get text() {
      return container.textContent ?? "";
    },
    render: (next) => act(async () => root.render(next)),
    unmount: () => act(async () => root.unmount()),
  };
}
