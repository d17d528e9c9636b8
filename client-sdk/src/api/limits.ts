// Every bound of the agent part, with its reason. Times are in ms.

/** How long one try of a call may take: the server gives storage three tries of 8 s each. */
export const CALL_LIMIT_MS = 30_000;

/** How long an application may take to give a token. */
export const TOKEN_LIMIT_MS = 10_000;

/** Tries of one call: with the delays below some seconds, which a restart of the server takes. */
export const MAX_TRIES = 5;

/** The ceiling of a call's first delay; it doubles with each failure in a row. */
export const RETRY_BASE_MS = 500;
/** The same of a stream: all streams of a server that restarts come back together. */
export const STREAM_RETRY_BASE_MS = 2_000;
/** A server that comes back is found within half a minute, and one that stays away is asked four times a minute. */
export const RETRY_CAP_MS = 30_000;
/** The least delay after a failure, whatever chance says. */
export const RETRY_MIN_MS = 50;

/** A call that has to wait longer than this is refused instead: its caller knows better what to do meanwhile. */
export const MAX_RETRY_AFTER_MS = 60_000;
/** A stream waits as long as it is told, but not for ever for a header that is a mistake. */
export const MAX_STREAM_RETRY_AFTER_MS = 3_600_000;

/** Two missed comments of 25 s (F4), and late timers. A stream may be open and dead. */
export const SILENCE_MS = 55_000;
/** A stream that ends sooner counts as a failure however it ended, so that none is opened in a loop. */
export const STABLE_MS = 10_000;
/** After `bye`, when it names no time. */
export const BYE_MS = 2_000;
/** Longest event: a path of 512 bytes and an actor of 128, each byte escaped to six, fit 16 times. */
export const MAX_EVENT_LENGTH = 65_536;

/** Changes that are kept for iterators that are a little behind: some 300 KB. Who is further behind reads pages. */
export const MAX_RECENT = 1_000;
/** The largest page that the API gives. */
export const PAGE_LIMIT = 1_000;
/** How long a stream stays open after the last iterator: agents wait, work and wait again. */
export const LINGER_MS = 30_000;
