import type { ServerResponse } from "node:http";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";

/** Up to this much may wait unwatched: watching every small answer would cost each call. */
const UNWATCHED_BYTES = 64 * 1024;

export const unreadBounds = fixed({
  /** How long a client may accept nothing of what is sent to it. */
  stalledMs: 60_000,
});

/** A request whose answer may wait for its client. */
interface Answered {
  readonly response: ServerResponse;
  readonly claimed: { readonly tenant: string };
  /** Set here: the end of a response is listened for once. */
  isUnreadWatched: boolean;
}

type UnreadLimits = Pick<Limits, "unreadBytes" | "unreadBytesPerTenant">;

/**
 * The large parts of answers and streams that clients have not taken yet, which wait in memory. When a tenant has more
 * than it may, or the most while the total is too much, its longest-waiting response is cut.
 */
export class Unread {
  readonly #limits: UnreadLimits;
  readonly #tenants = new Map<string, Waiting>();
  #bytes = 0;

  constructor(limits: UnreadLimits) {
    this.#limits = limits;
  }

  /** Must be called when something was written that may not have been taken. */
  count(context: Answered): void {
    const { response } = context;
    if (response.writableLength <= UNWATCHED_BYTES) return;
    const { tenant } = context.claimed;
    let waiting = this.#tenants.get(tenant);
    if (!waiting) this.#tenants.set(tenant, (waiting = { bytes: 0, responses: new Map() }));
    if (!context.isUnreadWatched) response.once("close", () => this.#set(tenant, response, undefined));
    context.isUnreadWatched = true;
    this.#set(tenant, response, response.writableLength);
    for (let loser = this.#loser(tenant); loser !== undefined; loser = this.#loser(tenant)) {
      this.#look(loser);
      if (this.#loser(tenant) !== loser) continue;
      const [longest] = this.#tenants.get(loser)!.responses.keys();
      this.#set(loser, longest!, undefined);
      longest!.destroy();
    }
  }

  /** Must be called when all of an answer was written; its client has `stalledMs` to take each part of what is left. */
  watchRest(context: Answered): void {
    if (context.response.writableLength <= UNWATCHED_BYTES) return;
    context.response.setTimeout(unreadBounds.stalledMs);
    this.count(context);
  }

  #loser(tenant: string): string | undefined {
    const { unreadBytes, unreadBytesPerTenant } = this.#limits;
    if ((this.#tenants.get(tenant)?.bytes ?? 0) > unreadBytesPerTenant) return tenant;
    if (this.#bytes <= unreadBytes) return undefined;
    let [loser, most]: [string | undefined, number] = [undefined, 0];
    for (const [each, { bytes }] of this.#tenants) if (bytes > most) [loser, most] = [each, bytes];
    return loser;
  }

  /** Counts anew; a client that has taken something waits only since then. */
  #look(tenant: string): void {
    for (const [response, bytes] of this.#tenants.get(tenant)!.responses) {
      const now = response.destroyed ? 0 : response.writableLength;
      if (now < bytes) this.#set(tenant, response, undefined);
      if (now < bytes && now > UNWATCHED_BYTES) this.#set(tenant, response, now);
    }
  }

  #set(tenant: string, response: ServerResponse, bytes: number | undefined): void {
    const waiting = this.#tenants.get(tenant);
    if (!waiting) return;
    const more = (bytes ?? 0) - (waiting.responses.get(response) ?? 0);
    waiting.bytes += more;
    this.#bytes += more;
    if (bytes !== undefined) waiting.responses.set(response, bytes);
    else if (waiting.responses.delete(response) && waiting.responses.size === 0) this.#tenants.delete(tenant);
  }
}

interface Waiting {
  bytes: number;
  /** The bytes last found of each response, the one longest without change first. */
  readonly responses: Map<ServerResponse, number>;
}
