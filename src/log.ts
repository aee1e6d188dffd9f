import { destination, pino, type Logger } from "pino";

export type Log = Logger;

/** JSON lines on stderr, so that stdout stays free for protocols and data. */
export function createLog(level: string): Log {
  return pino({ level, base: undefined, timestamp: pino.stdTimeFunctions.isoTime }, destination({ fd: 2, sync: true }));
}
