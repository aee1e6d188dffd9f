/** The messages kept for showing; the oldest go first. */
export const SHOWN_MESSAGES = 300;
/** The log lines, and the progress reports, kept of one call. */
export const SHOWN_LINES = 500;
/** The characters of a text shown at once; a button shows the rest. */
export const SHOWN_TEXT_CHARS = 20_000;
/** The levels of a JSON value that are open at first. */
export const OPEN_JSON_LEVELS = 3;
/** The members of a JSON value shown at once. */
export const SHOWN_JSON_MEMBERS = 200;
/** The longest silence of a call; a person may be answering its questions meanwhile. */
export const CALL_TIMEOUT_MS = 15 * 60_000;
/** The height of the frame of an app, in pixels; what is higher is scrolled. */
export const APP_HEIGHT_MIN = 120;
export const APP_HEIGHT_MAX = 800;
/** The calls of an app that run at once. */
export const APP_CALLS_MAX = 8;
/** How long an app may take to end itself before its frame goes. */
export const APP_TEARDOWN_MS = 500;
/** How long an argument's field rests before suggestions are requested. */
export const COMPLETION_DELAY_MS = 200;
/** The interval at which the clock of a running call moves. */
export const CLOCK_TICK_MS = 100;
