import type { Limits } from "../limits/limits.ts";

/** One tenant's memory budget for messages in transit. */
export interface MessageBudget {
  /**
   * `onOverBudget` receives the reason why the message is dropped, which completes "the server …" or "its process …";
   * its data must be discarded.
   */
  begin(onOverBudget: (why: string) => void): BudgetedMessage;
}

/** The count for one message. */
export interface BudgetedMessage {
  add(bytes: number): void;
  /** The message has arrived or was abandoned. */
  end(): void;
}

/** A kind of messages that are counted together: its limit, and why one is dropped when the budget is exceeded. */
export interface BudgetKind {
  readonly limit: BudgetLimit;
  why(bytes: number, isTenantLimit: boolean): string;
}

type BudgetLimit = "unfinishedUpstreamBytes" | "programBacklogBytes" | "unfinishedGuestBytes";
export type BudgetLimits<Limit extends BudgetLimit> = Pick<Limits, Limit | `${Limit}PerTenant`>;

/** The received parts of incomplete messages from upstreams. */
export const unfinishedUpstream = {
  limit: "unfinishedUpstreamBytes",
  why: (bytes, isTenantLimit) =>
    `was in the middle of a message when more than ${bytes} bytes of messages${isTenantLimit ? " to its tenant" : ""} were incomplete`,
} as const satisfies BudgetKind;

/** The received parts of incomplete frames from guests. */
export const unfinishedGuest = {
  limit: "unfinishedGuestBytes",
  why: (bytes, isTenantLimit) =>
    `was in the middle of a frame when more than ${bytes} bytes of frames of ${isTenantLimit ? "its tenant's guests" : "all guests"} were incomplete`,
} as const satisfies BudgetKind;

/** Messages to upstream programs that are not in their pipes yet. */
export const programBacklog = {
  limit: "programBacklogBytes",
  why: (bytes, isTenantLimit) =>
    `did not read its input when more than ${bytes} bytes waited for the programs of ${isTenantLimit ? "its tenant" : "all tenants"}`,
} as const satisfies BudgetKind;

interface TenantUsage {
  bytes: number;
  /** The oldest first. */
  readonly messages: Set<CountedMessage>;
}

/**
 * Counts the memory of messages in transit, and bounds it however many are started and never finished: above a tenant's
 * limit its oldest message is dropped, and above the common limit the oldest message of the tenant that uses most.
 */
export class MessageBudgets<Limit extends BudgetLimit> {
  readonly #kind: BudgetKind & { readonly limit: Limit };
  readonly #bytesMax: number;
  readonly #bytesPerTenantMax: number;
  readonly #tenants = new Map<string, TenantUsage>();
  #bytes = 0;

  constructor(kind: BudgetKind & { readonly limit: Limit }, limits: BudgetLimits<Limit>) {
    this.#kind = kind;
    this.#bytesMax = limits[kind.limit];
    this.#bytesPerTenantMax = limits[`${kind.limit}PerTenant`];
  }

  of(tenant: string): MessageBudget {
    return { begin: (onNoRoom) => new CountedMessage((by, message) => this.#count(tenant, by, message), onNoRoom) };
  }

  #count(tenant: string, by: number, message: CountedMessage): void {
    const usage = this.#tenants.get(tenant) ?? { bytes: 0, messages: new Set<CountedMessage>() };
    this.#bytes += by;
    usage.bytes += by;
    if (message.bytes > 0) usage.messages.add(message);
    else usage.messages.delete(message);
    if (usage.bytes > 0) this.#tenants.set(tenant, usage);
    else this.#tenants.delete(tenant);
    if (by > 0) this.#enforce(usage);
  }

  #enforce(usage: TenantUsage): void {
    while (usage.bytes > this.#bytesPerTenantMax) this.#dropOldest(usage, true);
    while (this.#bytes > this.#bytesMax) {
      const most = [...this.#tenants.values()].reduce((left, right) => (right.bytes > left.bytes ? right : left));
      this.#dropOldest(most, false);
    }
  }

  #dropOldest({ messages }: TenantUsage, isTenantLimit: boolean): void {
    const [first] = messages;
    const bytes = isTenantLimit ? this.#bytesPerTenantMax : this.#bytesMax;
    first!.drop(this.#kind.why(bytes, isTenantLimit));
  }
}

class CountedMessage implements BudgetedMessage {
  bytes = 0;
  readonly #count: (by: number, message: CountedMessage) => void;
  readonly #onOverBudget: (why: string) => void;

  constructor(count: (by: number, message: CountedMessage) => void, onOverBudget: (why: string) => void) {
    this.#count = count;
    this.#onOverBudget = onOverBudget;
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

  drop(why: string): void {
    this.end();
    this.#onOverBudget(why);
  }
}
