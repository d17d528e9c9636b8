/**
 * Every bound of this shell, with its reason. The protocol's own are in the core.
 *
 * @module
 */

/** Largest frame that is handed to the core, the core's own limit. An operator may only lower it. */
export const MAX_FRAME_BYTES = 1024 * 1024;

/** Open sockets of this process, those that are on their way out included: about 24 KB each. */
export const MAX_SOCKETS = 10_000;

/** Rooms of this process. An empty one costs some KB; a full one up to 60 MB. */
export const MAX_ROOMS = 2_000;

/**
 * Bytes that wait for sockets which are to be closed and do not read. The runtime cannot end such a
 * connection, so past this nobody new is let in until some of them are gone.
 */
export const MAX_STUCK_BYTES = 256 * 1024 * 1024;

/** Bytes queued for a socket from which the room is told. A few frames are how a burst looks. */
export const QUEUED_WORTH_TELLING = 1024 * 1024;

/**
 * Sockets of one workspace that were told to close and did not answer: twice a full room. Past it
 * the workspace waits, so that whoever does this on purpose keeps nobody else out.
 */
export const MAX_PARTING = 1024;

/**
 * How long frames are dealt with before everything else gets its turn, in ms: short beside what a probe or a person
 * notices, long beside what a change costs.
 */
export const TURN = 20;

/** Bytes of frames of one socket that may wait for their turn: as much as may be queued the other way (W9). */
export const MAX_WAITING_OF_SOCKET = 4 * 1024 * 1024;

/** The same of all sockets together, of which many that are slow alone must not fill the memory. */
export const MAX_WAITING = 128 * 1024 * 1024;

/** What a frame that waits costs besides its bytes: a flood is of small ones, which are work. 4,000 take 0.1 s. */
export const WAITING_COST = 1024;

/** How long an accepted handshake may take until the socket is open, in ms. A cut one never is. */
export const OPEN_DEADLINE = 5_000;

/** How often sockets that are to be closed and have not taken everything are looked at, in ms. */
export const PARTING_INTERVAL = 20;

/** Bytes that a passed-on connection may have unread on either leg, besides its largest frame: as in the core (W9). */
export const MAX_QUEUED_BYTES = 4 * 1024 * 1024;

/** How long the owner of a workspace may take to accept a connection, in ms: it is in the same network. */
export const PEER_DEADLINE = 2_000;

/** How often replicas ask each other who they are, in ms. */
export const PROBE_INTERVAL = 1_000;

/** How often the name of all replicas is looked up, in ms. */
export const DNS_INTERVAL = 5_000;

/** How long a replica may take to say who it is, in ms. */
export const PROBE_DEADLINE = 1_000;

/** After how long without a word of its owner a passed-on connection is cut, in ms: three questions. */
export const PEER_SILENCE = 3_000;

/** When rooms that belong elsewhere are looked for again, in ms: a newcomer counts for everybody by then. */
export const HANDOVER_AGAIN = 5_000;

/** Rooms that move in one go; with ten people each, 500 come back within about a second. */
export const MAX_HANDOVERS = 50;

/** Seconds until a silent connection counts as dead: a ping after half of it, the end after all of it. */
export const IDLE_TIMEOUT = 30;

/** Longest sleep of a timer: the platform keeps 31 bits of milliseconds and fires at once past them. */
export const MAX_TIMER = 2 ** 31 - 1;

/** Requests to the API at once. Each holds a document of up to 16 MiB. */
export const MAX_API_CALLS = 8;

/** Appends in one request, as many as the API takes. */
export const MAX_BATCH = 40;

/** Bytes of their updates: in base64, with paths and keys, under the API's limit of 1 MiB. */
export const MAX_BATCH_BYTES = 640 * 1024;

/** How long storage may take, in ms, waiting for a place included: the room gives up after 10 s. */
export const STORAGE_DEADLINE = 8_000;

/** After how long without the database people go on without it (D4), in ms: they notice about two seconds. */
export const ALONE_AFTER = 2_000;

/** How long an upgrade waits to learn whether the workspace is there, in ms. */
export const LOOKUP_DEADLINE = 2_000;

/** How long a person's presence counts without another word, in ms: the longest that the API takes. */
export const PRESENCE_ROW = 300_000;

/** How long before its end it is renewed, in ms: time for some tries. */
export const PRESENCE_RENEW = 30_000;

/** How long a person without a socket is still here, in ms: a reload, or a fresh token, is no leave. */
export const PRESENCE_LINGER = 2_000;

/** Delays between two tries to tell of a person, in ms, before jitter. */
export const PRESENCE_RETRY = { min: 1_000, max: 30_000 };

/** How long a stream of the feed may be silent, in ms. Comments come every 25 s. */
export const FEED_SILENCE = 60_000;

/** Delays between two tries to open the feed, in ms, before jitter. */
export const FEED_RETRY = { min: 500, max: 10_000 };

/** Largest event of the feed, in characters: a path has 512 bytes, an actor 128. */
export const MAX_EVENT_LENGTH = 64 * 1024;

/** How long updates gather before they are written to the spool as one transaction, in ms. */
export const SPOOL_BATCH = 1_000;

/** Delay until a spool that failed is tried again, in ms. */
export const SPOOL_RETRY = 1_000;

/** Bytes of updates that are sent from the spool in one request; the API takes 16 MiB. */
export const MAX_SPOOL_REQUEST = 4 * 1024 * 1024;

/** Groups of rows of the spool that are looked at in one go. */
export const SPOOL_PAGE = 100;

/** Delays between two rounds of the spool's drain, in ms, before jitter. */
export const SPOOL_DRAIN_RETRY = { min: 1_000, max: 60_000 };

/**
 * How long a drain waits for the database before sockets are closed, in ms: those who asked for a
 * receipt get it on the open socket. Short, because clients should go on elsewhere within a second.
 */
export const DRAIN_FLUSH_WAIT = 600;

/** What is left of the drain's window for the server's own end, in ms. */
export const DRAIN_RESERVE = 500;

/** How long a client may take to answer a close frame in a drain, in ms. */
export const DRAIN_CLOSE_WAIT = 2_000;

/** How soon after a signal another one is the same, in ms. Nobody decides twice as fast. */
export const SIGNAL_ECHO = 200;

/** Traps of the core after which the process ends: each leaks what its room held. */
export const MAX_TRAPS = 3;

/** How often the delay of the event loop is measured, in ms. */
export const LOOP_PROBE_INTERVAL = 500;

/** Longest text of one field in a log line, in characters. */
export const MAX_LOG_TEXT = 400;
