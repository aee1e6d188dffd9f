/** Messages that are kept for showing; the oldest go first. */
export const SHOWN_MESSAGES = 300;
/** Log lines and reports of progress that are kept of one call, of each kind. */
export const SHOWN_LINES = 500;
/** Characters of one text that are shown at once; a button shows the rest. */
export const SHOWN_TEXT_CHARS = 20_000;
/** Levels of a JSON value that are open at first. */
export const OPEN_JSON_LEVELS = 3;
/** Members of one JSON value that are shown at once. */
export const SHOWN_JSON_MEMBERS = 200;
/** How long a call may take with nothing heard from it; a person may be answering its questions meanwhile. */
export const CALL_TIMEOUT_MS = 15 * 60_000;
/** How long a field of an argument rests before suggestions are asked for. */
export const COMPLETION_DELAY_MS = 200;
/** How often the clock of a running call moves. */
export const CLOCK_TICK_MS = 100;
