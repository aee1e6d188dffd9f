import type { Limits } from "../limits/limits.ts";

/** The memory of one tenant for messages that are under way. */
export interface MessageRoom {
  /**
   * `onNoRoom` gets the reason why the message ends, which completes "the server …" or "its process …"; its data must
   * be dropped.
   */
  begin(onNoRoom: (why: string) => void): HeldMessage;
}

/** The count for one message. */
export interface HeldMessage {
  add(bytes: number): void;
  /** The message has arrived, or nobody wants it any more. */
  end(): void;
}

/** A kind of messages that are counted together: its limit, and why one of them ends when there is no more room. */
export interface RoomKind {
  readonly limit: RoomLimit;
  why(bytes: number, ofTenant: boolean): string;
}

type RoomLimit = "unfinishedUpstreamBytes" | "programBacklogBytes" | "unfinishedGuestBytes";
export type RoomLimits<Limit extends RoomLimit> = Pick<Limits, Limit | `${Limit}PerTenant`>;

/** The received parts of incomplete messages from upstreams. */
export const unfinishedUpstream = {
  limit: "unfinishedUpstreamBytes",
  why: (bytes, ofTenant) =>
    `was in the middle of a message when more than ${bytes} bytes of messages${ofTenant ? " to its tenant" : ""} were incomplete`,
} as const satisfies RoomKind;

/** The received parts of incomplete frames from guests. */
export const unfinishedGuest = {
  limit: "unfinishedGuestBytes",
  why: (bytes, ofTenant) =>
    `was in the middle of a frame when more than ${bytes} bytes of frames of ${ofTenant ? "its tenant's guests" : "all guests"} were incomplete`,
} as const satisfies RoomKind;

/** Messages to upstream programs that are not in their pipes yet. */
export const programBacklog = {
  limit: "programBacklogBytes",
  why: (bytes, ofTenant) =>
    `did not read its input when more than ${bytes} bytes waited for the programs of ${ofTenant ? "its tenant" : "all tenants"}`,
} as const satisfies RoomKind;

interface Holder {
  bytes: number;
  /** The oldest first. */
  readonly messages: Set<CountedMessage>;
}

/**
 * Counts the memory of messages that are under way. However many are begun and never ended, they hold a bounded amount:
 * above a tenant's limit its oldest message ends, and above the common limit one of the tenant that holds most.
 */
export class MessageRooms<Limit extends RoomLimit> {
  readonly #kind: RoomKind & { readonly limit: Limit };
  readonly #bytesMax: number;
  readonly #bytesPerTenantMax: number;
  readonly #holders = new Map<string, Holder>();
  #bytes = 0;

  constructor(kind: RoomKind & { readonly limit: Limit }, limits: RoomLimits<Limit>) {
    this.#kind = kind;
    this.#bytesMax = limits[kind.limit];
    this.#bytesPerTenantMax = limits[`${kind.limit}PerTenant`];
  }

  of(tenant: string): MessageRoom {
    return { begin: (onNoRoom) => new CountedMessage((by, message) => this.#count(tenant, by, message), onNoRoom) };
  }

  #count(tenant: string, by: number, message: CountedMessage): void {
    const holder = this.#holders.get(tenant) ?? { bytes: 0, messages: new Set<CountedMessage>() };
    this.#bytes += by;
    holder.bytes += by;
    if (message.bytes > 0) holder.messages.add(message);
    else holder.messages.delete(message);
    if (holder.bytes > 0) this.#holders.set(tenant, holder);
    else this.#holders.delete(tenant);
    if (by > 0) this.#makeRoom(holder);
  }

  #makeRoom(holder: Holder): void {
    while (holder.bytes > this.#bytesPerTenantMax) this.#endFirst(holder, true);
    while (this.#bytes > this.#bytesMax) {
      const most = [...this.#holders.values()].reduce((left, right) => (right.bytes > left.bytes ? right : left));
      this.#endFirst(most, false);
    }
  }

  #endFirst({ messages }: Holder, ofTenant: boolean): void {
    const [first] = messages;
    const bytes = ofTenant ? this.#bytesPerTenantMax : this.#bytesMax;
    first!.giveUp(this.#kind.why(bytes, ofTenant));
  }
}

class CountedMessage implements HeldMessage {
  bytes = 0;
  readonly #count: (by: number, message: CountedMessage) => void;
  readonly #onNoRoom: (why: string) => void;

  constructor(count: (by: number, message: CountedMessage) => void, onNoRoom: (why: string) => void) {
    this.#count = count;
    this.#onNoRoom = onNoRoom;
  }

  add(bytes: number): void {
    this.bytes += bytes;
    this.#count(bytes, this);
  }

  end(): void {
    const { bytes } = this;
    this.bytes = 0;
    if (bytes > 0) this.#count(-bytes, this);
  }

  giveUp(why: string): void {
    this.end();
    this.#onNoRoom(why);
  }
}
