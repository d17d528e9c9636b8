// What belongs to yrelay, by name.

/** An address below the workspaces of the API. A text with spaces is prose. */
export const WORKSPACE_ADDRESS = /^\S*\/api\/workspaces(?![\w-])\S*$/i;

const PACKAGE = "yrelay-client";

/** Whether a module is the SDK; its rules and its test doubles are no use of a workspace. */
export function isSdk(module: string): boolean {
  return module === PACKAGE || (module.startsWith(`${PACKAGE}/`) && !/\/(lint|testing)$/.test(module));
}
