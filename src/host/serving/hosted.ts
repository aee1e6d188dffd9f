import type { PromptContract, ToolContract } from "../../contract/contract.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Launch } from "../../upstream/launch.ts";
import type { Observed } from "../../upstream/observed.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { Upstream, UpstreamOptions, UpstreamRequest } from "../../upstream/upstream.ts";
import { SuspendedCalls, type SuspendedLimits } from "../calls/upstream-call.ts";
import type { RememberedChanges } from "../catalog/remembered.ts";
import { cidOf, makeCids } from "../catalog/structure-cid.ts";

/** Opens an upstream for its host; what else the connection needs is already bound. */
export type OpenUpstream = (launch: Launch, listener: UpstreamListener) => Upstream;

export type HostedLimits = SuspendedLimits & Pick<Limits, "upstreamErrorBytes">;

export type UpstreamListener = Pick<
  UpstreamOptions,
  "check" | "onContract" | "onResourceUpdated" | "onLost" | "onError" | "takePlace"
>;

/** One upstream, hosted under one name, with what was last seen of it. */
export class HostedUpstream {
  readonly upstream: Upstream;
  readonly suspended: SuspendedCalls;
  readonly limits: HostedLimits;
  /** The record to use where nothing can be stored. */
  remembered: RememberedChanges | undefined;
  #observed: Observed | undefined;
  #offered: Offered = { tool: new Map(), prompt: new Map() };
  #looks = 0;

  /** `onChange` is called when the upstream offers something else than when it was last seen. */
  constructor(
    launch: Launch,
    open: OpenUpstream,
    limits: HostedLimits,
    listener: Omit<UpstreamListener, "check" | "onContract"> & { onChange: () => void },
  ) {
    this.limits = limits;
    this.upstream = open(launch, {
      ...listener,
      check: (request) => this.#check(request),
      onContract: async (observed) => {
        if (await this.#take(observed)) listener.onChange();
      },
    });
    this.suspended = new SuspendedCalls(this.upstream, limits);
  }

  get observed(): Observed | undefined {
    return this.#observed;
  }

  /** Throws when the upstream no longer has an item of that name, or has one that differs from the served one. */
  #check(request: UpstreamRequest): void {
    if (!("served" in request && request.served)) return;
    const { served, name, method } = request;
    const kind = method === "tools/call" ? "tool" : "prompt";
    const now = this.#offered[kind].get(name);
    if (now === served || (now !== undefined && cidOf(now) === cidOf(served))) return;
    if (now !== undefined) throw heldBack(kind, name);
    throw new BerthError("upstream_changed", `it no longer has the ${kind} "${name}"`);
  }

  /** Resolves with true when the contract differs from the one last seen. */
  async #take(observed: Observed): Promise<boolean> {
    const { contract, failed } = observed;
    const known = this.#observed?.contract ?? this.remembered?.observed;
    // A list that once had items is not empty just because it fails to load.
    const lost = failed.find(({ list }) => known && known[list].length > 0);
    if (lost) throw new UpstreamError("upstream_not_started", lost.error.message, { cause: lost.error });
    const look = ++this.#looks;
    await makeCids(contract);
    // A later look has seen the current contract.
    if (look !== this.#looks) return false;
    const last = this.#observed?.contract;
    if (last && cidOf(last) === cidOf(contract)) {
      this.#observed = { ...observed, contract: last };
      return false;
    }
    // What is seen first may differ from what an earlier run of Berth saw.
    const before = last ?? this.remembered?.observed;
    this.#observed = observed;
    this.#offered = {
      tool: new Map(contract.tools.map((tool) => [tool.name, tool])),
      prompt: new Map(contract.prompts.map((prompt) => [prompt.name, prompt])),
    };
    return before !== undefined && cidOf(before) !== cidOf(contract);
  }
}

/** By name. */
type Offered = Readonly<Record<HeldKind, ReadonlyMap<string, ToolContract | PromptContract>>>;

/** The kinds of items that are held back when they differ from what was approved. */
export type HeldKind = "tool" | "prompt";

export function heldBack(kind: HeldKind, name: string): BerthError {
  const detail = `the ${kind} "${name}" has changed since it was approved; it is held back until a person approves the change`;
  return new BerthError("upstream_changed", detail);
}
