// One message at the top of the page, which stays until it is closed.
import { byId } from "./dom.ts";

export interface NoticeAction {
  readonly label: string;
  readonly act: () => void;
}

/** Shows a message; `copy` is a text that the person may want to keep. */
export function notify(text: string, action?: NoticeAction, copy?: string): void {
  byId("notice-text").textContent = text;
  const area = byId<HTMLTextAreaElement>("notice-copy");
  area.value = copy ?? "";
  area.hidden = copy === undefined;
  const button = byId<HTMLButtonElement>("notice-act");
  button.hidden = action === undefined;
  button.textContent = action?.label ?? "";
  button.onclick = action === undefined ? null : action.act;
  byId("notice-close").onclick = clearNotice;
  byId("notice").hidden = false;
}

export function clearNotice(): void {
  byId("notice").hidden = true;
}
