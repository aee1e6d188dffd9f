import type { FailureReason } from "../../executor/executor.ts";
import { beginningOf, cutText } from "../../lib/cut-text.ts";
import type { LogLevel } from "../../lib/log-level.ts";
import { fixed } from "../../limits/fixed.ts";
import type { CalledTool, CallObserver, LineObserver } from "./journal.ts";

export interface RecentLine {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly tool: string;
  readonly kind: LogLevel | "failed";
  readonly message: string;
  /** `file:line:column` in the sources of the definition, where it is known. */
  readonly location?: string;
}

const bounds = fixed({
  /** Failures of a server's functions and their log lines, together, that its page shows its authors. */
  recentLines: 20,
  /** Servers of all tenants for which such lines are kept in memory; the longest silent are forgotten first. */
  recentLinesServers: 1_000,
});

const MESSAGE_UNITS_MAX = 1_000;

/** Failures that say nothing about the function. */
const NOT_ITS_OWN: ReadonlySet<FailureReason> = new Set(["cancelled", "descriptors", "busy", "evicted"]);

/**
 * The latest failures of each server's functions, and the latest lines that they log or print, for its author. They are
 * kept in memory alone. A call that neither fails nor prints leaves nothing here.
 */
export class RecentLines {
  /** Ordered by latest line, the most recent server last. */
  readonly #servers = new Map<string, Ring>();
  #latest: Ring | undefined;

  readonly onCall: CallObserver = ({ tool, failure }) => {
    if (!failure || NOT_ITS_OWN.has(failure.reason)) return;
    const place = placeThrownAt(failure.stack);
    const message = cutText(failure.message, MESSAGE_UNITS_MAX);
    this.#keep(tool, { at: Date.now(), tool: tool.tool, kind: "failed", message, ...(place && { location: place }) });
  };

  readonly onLine: LineObserver = ({ tool, line: { level, message } }) => {
    const said = cutText(
      typeof message === "string" ? message : beginningOf(message, MESSAGE_UNITS_MAX),
      MESSAGE_UNITS_MAX,
    );
    // An error that was printed, or a rejection that nobody handled, has its stack in the line.
    const place = level === "error" ? placeThrownAt(said) : undefined;
    this.#keep(tool, {
      at: Date.now(),
      tool: tool.tool,
      kind: level,
      message: said,
      ...(place && { location: place }),
    });
  };

  /** Newest first. */
  of(tenant: string, server: string): RecentLine[] {
    const ring = this.#servers.get(keyOf(tenant, server));
    if (!ring) return [];
    const { lines, next } = ring;
    return [...lines.slice(next), ...lines.slice(0, next)].toReversed();
  }

  /** Forgets servers that are gone. */
  keepOnly(tenant: string, servers: ReadonlyMap<string, unknown>): void {
    for (const [key, ring] of this.#servers) {
      if (ring.tenant !== tenant || servers.has(ring.server)) continue;
      this.#servers.delete(key);
      if (this.#latest === ring) this.#latest = undefined;
    }
  }

  #keep({ tenant, server }: CalledTool, line: RecentLine): void {
    const ring = this.#ringOf(tenant, server);
    ring.lines[ring.next] = line;
    ring.next = (ring.next + 1) % bounds.recentLines;
  }

  #ringOf(tenant: string, server: string): Ring {
    const latest = this.#latest;
    if (latest?.tenant === tenant && latest.server === server) return latest;
    const key = keyOf(tenant, server);
    const ring = this.#servers.get(key) ?? { tenant, server, lines: [], next: 0 };
    this.#servers.delete(key);
    this.#servers.set(key, ring);
    if (this.#servers.size > bounds.recentLinesServers) {
      const [oldest] = this.#servers.keys();
      this.#servers.delete(oldest!);
    }
    this.#latest = ring;
    return ring;
  }
}

/** Once all its places are taken, the line at `next` is the oldest. */
interface Ring {
  readonly tenant: string;
  readonly server: string;
  readonly lines: RecentLine[];
  next: number;
}

function keyOf(tenant: string, server: string): string {
  return `${tenant}\n${server}`;
}

/** The first place in the definition's own files: `file:line:column`. A stack may hold anything that a guest writes. */
export function placeThrownAt(stack: string | undefined): string | undefined {
  return /^[ \t]+at (?:.*\()?(?:definition:)?([^\s()]+:\d+:\d+)\)?$/m.exec(stack ?? "")?.[1];
}
