import { limitVariable, type Limits } from "../limits.ts";

export type UnfinishedLimits = Pick<Limits, "unfinishedUpstreamBytes" | "unfinishedUpstreamBytesPerTenant">;

/** Room for what has come of messages that are not whole yet. */
export interface MessageRoom {
  /** `onNoRoom` hears why it ends, which completes "the server …"; what was held of it is to be forgotten. */
  begin(onNoRoom: (why: string) => void): HeldMessage;
}

/** What is held of one message. */
export interface HeldMessage {
  add(bytes: number): void;
  /** It is whole, or nobody wants it any more. */
  end(): void;
}

interface Holder {
  bytes: number;
  /** Those that were begun first come first. */
  readonly messages: Set<CountedMessage>;
}

/**
 * Counts what is held of messages of servers of others that are not whole yet. However many are begun and never ended,
 * they hold a bounded amount of memory: above it the one of a tenant ends that was begun first, and where all together
 * is too much, one of the tenant that holds most.
 */
export class UnfinishedMessages {
  readonly #limits: UnfinishedLimits;
  readonly #holders = new Map<string, Holder>();
  #bytes = 0;

  constructor(limits: UnfinishedLimits) {
    this.#limits = limits;
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
    const { unfinishedUpstreamBytes, unfinishedUpstreamBytesPerTenant } = this.#limits;
    while (holder.bytes > unfinishedUpstreamBytesPerTenant) {
      endFirst(
        holder,
        `${unfinishedUpstreamBytesPerTenant} bytes of messages to its tenant`,
        "unfinishedUpstreamBytesPerTenant",
      );
    }
    while (this.#bytes > unfinishedUpstreamBytes) {
      const most = [...this.#holders.values()].reduce((left, right) => (right.bytes > left.bytes ? right : left));
      endFirst(most, `${unfinishedUpstreamBytes} bytes of messages`, "unfinishedUpstreamBytes");
    }
  }
}

function endFirst({ messages }: Holder, held: string, limit: keyof UnfinishedLimits): void {
  const [first] = messages;
  first!.giveUp(`was in the midst of a message when more than ${held} were not whole (${limitVariable(limit)})`);
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
