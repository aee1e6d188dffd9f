import { Console } from "node:console";
import type { Writable } from "node:stream";
import { currentCall, type ActiveCall } from "./active.mts";
import { sendSoon } from "./pipe.mts";
import { encodeEvent } from "./values.mts";
import { nameUnitsMax, toHost } from "./wire.mts";

type Level = "debug" | "info" | "notice" | "warning" | "error" | "critical" | "alert" | "emergency";

const levels: Level[] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/** `log.info(message)` for each level, and `log.named("db").info(message)`. */
export function logger(call: ActiveCall, name?: string): object {
  const log = (level: Level) => (message: unknown) => {
    if (!call.over) writeLog(call.id, level, message, name);
  };
  return {
    ...Object.fromEntries(levels.map((level) => [level, log(level)])),
    warn: log("warning"),
    named: (inner: unknown) => logger(call, String(inner)),
  };
}

/** Turns everything that the program prints into log lines of the call that printed it. */
export function captureConsole(): void {
  const lines = (level: Level): Writable =>
    ({
      write: (text: string) => writeLog(currentCall(), level, text.replace(/\n$/, "")),
      on: () => {},
      once: () => {},
      removeListener: () => {},
      listenerCount: () => 0,
    }) as unknown as Writable;
  const infoConsole = new Console({ stdout: lines("info"), stderr: lines("error"), ignoreErrors: false });
  const debugConsole = new Console({ stdout: lines("debug"), stderr: lines("warning"), ignoreErrors: false });
  globalThis.console = Object.assign(infoConsole, {
    warn: (...parts: unknown[]) => debugConsole.warn(...parts),
    debug: (...parts: unknown[]) => debugConsole.debug(...parts),
  });
}

export function writeLog(id: number, level: Level, message: unknown, name?: string): void {
  const suffix = name === undefined ? "" : `,${JSON.stringify(name.slice(0, nameUnitsMax))}`;
  sendSoon(`[${toHost.log},${id},"${level}",${encodeEvent(message)}${suffix}]`);
}
