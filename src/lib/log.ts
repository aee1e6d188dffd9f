import { destination, pino, symbols, type DestinationStream, type Logger } from "pino";
import { fixed } from "../limits/fixed.ts";
import { printableJson } from "./printable.ts";
import { within } from "./within.ts";

export type Log = Logger;

/** Headers and fields whose values are credentials. */
const SECRET_FIELDS = ["authorization", "cookie", "set-cookie", "proxy-authorization", "token", "secret", "password"];
const PATHS = SECRET_FIELDS.flatMap((field) => [`["${field}"]`, `*["${field}"]`, `*.*["${field}"]`]);
const HIDDEN = "[hidden]";
/** Credentials recognizable anywhere, as in the message of an error. */
const CREDENTIALS = /\b(Bearer|Basic)\s+[\w.~+/-]+=*|\bberth_[0-9A-Za-z]{20,}/gi;

/** The pause between two tries to write what stderr does not take. */
const AGAIN_MS = 100;
/** The time to write the rest when the process ends. */
const LAST_LINES_MS = 1_000;

/** Log lines that stderr does not take; further ones are dropped and counted. */
const bounds = fixed({ logBufferBytes: 1024 * 1024 });

/**
 * JSON lines on stderr, so that stdout stays free for protocols and data. No line holds a credential: neither a text
 * that looks like one, nor any of `secrets`. Lines that stderr does not take wait, in up to `logBufferBytes`; further ones
 * are dropped and counted. `show` words a line in another form.
 */
export function createLog(
  level: string,
  secrets: readonly (string | undefined)[] = [],
  show?: (line: string) => string,
): Log {
  const stream = new LogStream();
  const log = pino(logOptions(level, secrets, show), stream);
  stream.onCaughtUp = (dropped) => log.warn({ dropped }, "log lines were dropped because stderr was blocked");
  return log;
}

/** The number of lines that have not been written so far. */
export function droppedLines(log: Log): number {
  return streamOf(log)?.dropped ?? 0;
}

/** Resolves when everything is written, or the time is over. */
export async function writeLastLines(log: Log): Promise<void> {
  await streamOf(log)?.caughtUp(LAST_LINES_MS);
}

function streamOf(log: Log): LogStream | undefined {
  const { [symbols.streamSym]: stream } = log as unknown as Record<symbol, unknown>;
  return stream instanceof LogStream ? stream : undefined;
}

/** Writes to stderr at once and never blocks: neither for a reader nor for room on a disk. */
class LogStream implements DestinationStream {
  dropped = 0;
  onCaughtUp: (dropped: number) => void = () => {};
  readonly #stream;
  #told = 0;
  /** Runs while lines wait. */
  #tries: NodeJS.Timeout | undefined;

  constructor() {
    // Node opens it on first access: from then on a pipe does not block.
    void process.stderr;
    this.#stream = destination({ fd: 2, sync: true, maxLength: bounds.logBufferBytes, retryEAGAIN: () => false });
    // Pino's own listener stops logging for ever when the reader of a named pipe is replaced.
    this.#stream.removeAllListeners("error").on("error", () => this.#tryAgain());
    this.#stream.on("drop", () => (this.dropped += 1));
  }

  write(line: string): void {
    this.#stream.write(line);
  }

  async caughtUp(ms: number): Promise<void> {
    if (!this.#tries) return;
    await within(ms, new Promise((resolve) => this.#stream.once("drain", resolve)));
  }

  /** Retries; the line that could not be written stays the first. */
  #tryAgain(): void {
    if (this.#tries) return;
    this.#tries = setInterval(() => this.#stream.write(""), AGAIN_MS).unref();
    this.#stream.once("drain", () => {
      clearInterval(this.#tries);
      this.#tries = undefined;
      const untold = this.dropped - this.#told;
      this.#told = this.dropped;
      if (untold > 0) this.onCaughtUp(untold);
    });
  }
}

export function logOptions(
  level: string,
  secrets: readonly (string | undefined)[],
  show: (line: string) => string = (line) => line,
) {
  // In their notation inside JSON.
  const known = secrets.flatMap((secret) => (secret ? [JSON.stringify(secret).slice(1, -1)] : []));
  const withoutSecrets = (line: string): string => {
    let clean = line.replace(CREDENTIALS, (found) =>
      found.startsWith("berth_") ? HIDDEN : `${found.split(/\s/)[0]} ${HIDDEN}`,
    );
    for (const secret of known) clean = clean.replaceAll(secret, HIDDEN);
    // A person reads it in a terminal, too; the value stays the same.
    return show(printableJson(clean));
  };
  return {
    level,
    base: undefined,
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: PATHS, censor: HIDDEN },
    hooks: { streamWrite: withoutSecrets },
  };
}
