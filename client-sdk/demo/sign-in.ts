// The form for a page that no server gives a session to. The token stays in this page's memory.
import { byId } from "./dom.ts";
import { pastedSession } from "./session.ts";
import type { Session } from "./session.ts";

/** Resolves when the form was filled in. */
export function signIn(): Promise<Session> {
  const form = byId<HTMLFormElement>("sign-in");
  form.hidden = false;
  byId<HTMLInputElement>("sign-in-workspace").focus();
  return new Promise((settle) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      form.hidden = true;
      settle(pastedSession(byId<HTMLTextAreaElement>("sign-in-token").value.trim(), byId<HTMLInputElement>("sign-in-workspace").value.trim()));
    });
  });
}
