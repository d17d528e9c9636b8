// The surroundings of a tab on this platform, which has real locks and real channels between threads.
import { browserEnvironment } from "../src/browser.ts";
import type { BroadcastChannelLike, LockManagerLike, PageEnvironment } from "../src/browser.ts";

export function platformTab(isHidden: () => boolean): PageEnvironment {
  return {
    ...browserEnvironment(),
    isHidden,
    locks: () => navigator.locks as unknown as LockManagerLike,
    openChannel: (name) => new BroadcastChannel(name) as unknown as BroadcastChannelLike,
  };
}
