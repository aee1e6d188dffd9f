import { entryOf, type AuditEntry } from "./audit-entry.ts";

/** A refused request: its principal, if known, and the reason. Nothing of the token that it showed. */
export interface Refusal {
  /** From the table of errors. */
  readonly code: string;
  readonly reason: string;
  /** The principal of a token that is valid for something else. */
  readonly principal?: string | undefined;
  /** Address of the connecting host, which may be a proxy. */
  readonly from: string;
  readonly path: string;
  readonly requestId: string;
}

const WINDOW_MS = 60_000;
const TEXT_CHARACTERS_MAX = 200;

interface Window {
  recorded: number;
  more: number;
}

/** Refusals are unlimited in number: for each tenant some are recorded in a minute, and the rest counted. */
export class RecordedRefusals {
  readonly #perMinute: number;
  readonly #note: (entry: AuditEntry) => void;
  readonly #windows = new Map<string, Window>();
  #timer: NodeJS.Timeout | undefined;

  constructor(perMinute: number, note: (entry: AuditEntry) => void) {
    this.#perMinute = perMinute;
    this.#note = note;
  }

  add(tenant: string, { code, reason, principal, from, path, requestId }: Refusal): void {
    this.#timer ??= setTimeout(() => this.#next(), WINDOW_MS).unref();
    let window = this.#windows.get(tenant);
    if (!window) this.#windows.set(tenant, (window = { recorded: 0, more: 0 }));
    if (window.recorded >= this.#perMinute) {
      window.more += 1;
      return;
    }
    window.recorded += 1;
    const facts = { code, reason: cut(reason), from, path: cut(path), requestId };
    this.#note(
      entryOf(tenant, "login", { outcome: "refused", ...(principal !== undefined && { principal }), ...facts }),
    );
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#next();
  }

  #next(): void {
    this.#timer = undefined;
    for (const [tenant, { more }] of this.#windows) {
      if (more > 0) this.#note(entryOf(tenant, "login", { outcome: "refused", more }));
    }
    this.#windows.clear();
  }
}

function cut(text: string): string {
  return text.slice(0, TEXT_CHARACTERS_MAX);
}
