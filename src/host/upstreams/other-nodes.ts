import {
  nodeCallBounds,
  NodeLost,
  CallNotAccepted,
  type NodeCallOptions,
  type NodeCalls,
} from "../../cluster/node-calls.ts";
import { Cancellation, type CancelSignal } from "../../lib/cancellation.ts";
import type { TenantCounts } from "../../lib/tenant-counts.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Observed } from "../../upstream/calls/observe.ts";
import type { UpstreamHealth } from "../../upstream/calls/supervisor.ts";
import { UpstreamError } from "../../upstream/messages/upstream-error.ts";
import type { UpstreamRequest } from "../../upstream/upstream.ts";
import {
  packRound,
  unpackEnd,
  unpackError,
  type ForwardedEnd,
  type ForwardedPart,
  type ForwardedRound,
} from "./forwarded.ts";
import type { RoundEnd, RoundOptions } from "./upstream-call.ts";

/** The topic of calls between nodes that are about upstreams. */
export const UPSTREAMS = "upstream";

/** Which upstream a call is about: its tenant and name, and a digest of its launcher URI and its secrets' names. */
export interface UpstreamName {
  readonly tenant: string;
  readonly server: string;
  readonly digest: string;
}

/** A request of one node to the one that runs an upstream. None of it is ever forwarded again. */
export type UpstreamAsked = UpstreamName &
  (
    | { readonly ask: "begin"; readonly fence: number; readonly round: ForwardedRound }
    /** Goes to the node on which the call is suspended, whatever runs there now. */
    | { readonly ask: "resume"; readonly round: ForwardedRound }
    /** About a task of a program that runs there, for as long as it does. */
    | { readonly ask: "task"; readonly round: ForwardedRound }
    | { readonly ask: "offers"; readonly fence: number }
    | { readonly ask: "state" }
  );

export interface UpstreamSaid {
  /** Undefined where no such call is suspended. */
  readonly ended?: ForwardedEnd | undefined;
  /** The CID of the contract that it offers. */
  readonly offers?: string | undefined;
  readonly observed?: Omit<Observed, "failed"> | undefined;
  readonly state?: { readonly health: UpstreamHealth; readonly stderr: string } | undefined;
}

/** The other node's own time limit is the one that counts; this is for a node that does not answer at all. */
const LATER_MS = 2_000;
const STATE_MS = 1_000;
/** The part of the connections to a node that the calls of one tenant may take: an upstream can keep them waiting. */
const TENANT_SHARE = 0.25;

/** One upstream as other nodes have it. Every method rejects with `NotTaken` when nothing was begun there. */
export class Elsewhere {
  readonly #calls: Pick<NodeCalls, "call">;
  readonly #name: UpstreamName;
  readonly #limits: ElsewhereLimits;
  readonly #forwarded: TenantCounts;
  readonly #onOffers: (offers: string) => void;

  /**
   * `forwarded` counts the calls in progress of each tenant. `onOffers` receives the CID of the contract that the
   * upstream offers, with each answer.
   */
  constructor(
    calls: Pick<NodeCalls, "call">,
    name: UpstreamName,
    limits: ElsewhereLimits,
    forwarded: TenantCounts,
    onOffers: (offers: string) => void,
  ) {
    this.#calls = calls;
    this.#name = name;
    this.#limits = limits;
    this.#forwarded = forwarded;
    this.#onOffers = onOffers;
  }

  /** Carries out a round there; resolves with undefined when it was to resume a call that is not there. */
  async round(
    node: string,
    how: { readonly ask: "begin"; readonly fence: number } | { readonly ask: "resume" | "task" },
    request: UpstreamRequest,
    options: RoundOptions,
  ): Promise<RoundEnd<object> | undefined> {
    const deadlineMs = options.deadlineMs ?? this.#limits.upstreamCallMs;
    const round = packRound(request, options, deadlineMs);
    let isOfTask = options.task !== undefined;
    const onPart = (part: unknown): void => {
      if ("task" in (part as ForwardedPart)) isOfTask = true;
      hear(part as ForwardedPart, options);
    };
    const asked = { ...this.#name, ...how, round };
    const { ended, offers } = await this.#ask(node, asked, deadlineMs + LATER_MS, { signal: options.signal, onPart });
    if (offers !== undefined) this.#onOffers(offers);
    if (!ended) return undefined;
    if ("error" in ended) throw unpackError(ended.error);
    const end = unpackEnd(ended.end);
    return isOfTask && "ended" in end ? { ...end, isOfTask } : end;
  }

  /** Starts it there if it does not run. */
  async offers(node: string, fence: number): Promise<Observed> {
    const asked = { ...this.#name, ask: "offers", fence } as const;
    const { observed, ended } = await this.#ask(node, asked, this.#limits.upstreamStartMs + LATER_MS, {});
    if (ended && "error" in ended) throw unpackError(ended.error);
    return { ...observed!, failed: [] };
  }

  async state(node: string): Promise<UpstreamSaid["state"]> {
    return (await this.#ask(node, { ...this.#name, ask: "state" }, STATE_MS, {})).state;
  }

  async #ask(
    node: string,
    asked: UpstreamAsked,
    ms: number,
    { signal, onPart }: NodeCallOptions,
  ): Promise<UpstreamSaid> {
    const { tenant } = this.#name;
    const before = this.#forwarded.of(tenant);
    if (before >= nodeCallBounds.nodeConnections * TENANT_SHARE) {
      const detail = `${before} calls of its tenant are waiting for upstreams that run on other nodes`;
      throw new UpstreamError("upstream_busy", detail, { data: { retriable: true } });
    }
    this.#forwarded.add(tenant, 1);
    const limited = new Limited(ms, signal);
    try {
      return (await this.#calls.call(node, UPSTREAMS, asked, {
        signal: limited,
        ...(onPart && { onPart }),
      })) as UpstreamSaid;
    } catch (error) {
      if (limited.isLate) throw new UpstreamError("upstream_timeout", "the node that runs it does not answer");
      if (!(error instanceof NodeLost)) throw error;
      const detail = "the node that runs it was lost during the call, which may have been carried out";
      throw new UpstreamError("upstream_ended", detail, { data: { retriable: false }, cause: error });
    } finally {
      limited.end();
      this.#forwarded.add(tenant, -1);
    }
  }
}

type ElsewhereLimits = Pick<Limits, "upstreamCallMs" | "upstreamStartMs">;

/** No node of them all ran it in the time that a call waits for that. */
export function noOwner(cause: CallNotAccepted, seconds: number): UpstreamError {
  const detail = `the node that ran it does not take calls any more (${cause.reason}), and another one takes over within ${seconds} s`;
  return new UpstreamError("upstream_ended", detail, {
    data: { retriable: true, retryAfterSeconds: seconds },
    cause,
  });
}

function hear(part: ForwardedPart, { onLog, onProgress, onTask }: RoundOptions): void {
  if ("log" in part) onLog?.(part.log);
  else if ("task" in part) onTask?.(part.task);
  else void onProgress?.(part.progress);
}

/** A longer timer would end at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** A signal that also comes after a while. */
class Limited extends Cancellation {
  isLate = false;
  readonly #timer: NodeJS.Timeout;
  readonly #signal: CancelSignal | undefined;
  readonly #onAbort = (): void => this.abort();

  constructor(ms: number, signal: CancelSignal | undefined) {
    super();
    this.#signal = signal;
    this.#timer = setTimeout(
      () => {
        this.isLate = true;
        this.abort();
      },
      Math.min(ms, TIMER_MS_MAX),
    ).unref();
    if (signal?.aborted) this.abort();
    signal?.addEventListener("abort", this.#onAbort);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }
}
