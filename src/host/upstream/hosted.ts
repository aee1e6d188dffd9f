import { jsonBlock, type Cid } from "../../cid.ts";
import { BerthError } from "../../errors.ts";
import type { Launch } from "../../upstream/launch.ts";
import type { Observed, Upstream, UpstreamOptions } from "../../upstream/upstream.ts";
import { toolCid } from "./judge.ts";
import type { Remembered } from "./remembered.ts";
import { SuspendedCalls, type SuspendedLimits } from "./suspended.ts";

/** How a host reaches servers of others; what the way there needs is bound by whoever gives it. */
export type OpenUpstream = (launch: Launch, listener: UpstreamListener) => Upstream;

export type UpstreamListener = Pick<
  UpstreamOptions,
  "onContract" | "onResourceUpdated" | "onLost" | "onError" | "takePlace"
>;

/** One server of others as it is hosted under one name, with what was last seen of it. */
export class HostedUpstream {
  readonly upstream: Upstream;
  readonly suspended: SuspendedCalls;
  /** What counts where nothing can be stored. */
  remembered: Remembered | undefined;
  #observed: Observed | undefined;
  #observedCid: Cid | undefined;
  #tools = new Map<string, Cid>();

  /** `onChange` hears when the server offers something else than when it was last seen. */
  constructor(
    launch: Launch,
    open: OpenUpstream,
    limits: SuspendedLimits,
    listener: Omit<UpstreamListener, "onContract"> & { onChange: () => void },
  ) {
    this.suspended = new SuspendedCalls(limits);
    this.upstream = open(launch, {
      ...listener,
      onContract: (observed) => {
        const { cid } = jsonBlock(observed.contract);
        // What is seen first may differ from what was seen in an earlier life of this Berth.
        const before = this.#observedCid ?? (this.remembered && jsonBlock(this.remembered.observed).cid);
        this.#observed = observed;
        this.#observedCid = cid;
        this.#tools = new Map(observed.contract.tools.map((tool) => [tool.name, toolCid(tool)]));
        if (before !== undefined && before !== cid) listener.onChange();
        return Promise.resolve();
      },
    });
  }

  get observed(): Observed | undefined {
    return this.#observed;
  }

  /** Throws when the server has no such tool any more, or another one under its name: `served` is the one wanted. */
  check(tool: string, served: Cid): void {
    const now = this.#tools.get(tool);
    if (now === served) return;
    if (now !== undefined) throw heldBack(tool);
    throw new BerthError("upstream_changed", `it has no tool "${tool}" any more`);
  }
}

export function heldBack(tool: string): BerthError {
  const detail = `the tool "${tool}" is not what was approved; it is held back until a person approves the change`;
  return new BerthError("upstream_changed", detail);
}
