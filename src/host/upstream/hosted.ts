import { jsonBlock, type Cid } from "../../cid.ts";
import type { Contract, ToolContract } from "../../contract/contract.ts";
import { BerthError } from "../../errors.ts";
import type { Launch } from "../../upstream/launch.ts";
import type { Observed, Upstream, UpstreamOptions } from "../../upstream/upstream.ts";
import { toolCid } from "./judge.ts";
import { SuspendedCalls, type SuspendedLimits } from "./suspended.ts";

/** How a host reaches servers of others; what the way there needs is bound by whoever gives it. */
export type OpenUpstream = (launch: Launch, listener: UpstreamListener) => Upstream;

export type UpstreamListener = Pick<UpstreamOptions, "onContract" | "onResourceUpdated" | "onLost" | "onError">;

/** One server of others as it is hosted under one name, with what was last seen of it. */
export class HostedUpstream {
  readonly upstream: Upstream;
  readonly suspended: SuspendedCalls;
  /** The contract that counts where nothing can be stored. */
  approved: Contract | undefined;
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
        const isOther = this.#observedCid !== undefined && this.#observedCid !== cid;
        const isFirst = this.#observedCid === undefined;
        this.#observed = observed;
        this.#observedCid = cid;
        this.#tools = new Map(observed.contract.tools.map((tool) => [tool.name, toolCid(tool)]));
        // What is seen first may differ from what was approved in an earlier life of this Berth.
        if (isOther || (isFirst && this.approved && jsonBlock(this.approved).cid !== cid)) listener.onChange();
        return Promise.resolve();
      },
    });
  }

  get observed(): Observed | undefined {
    return this.#observed;
  }

  get observedCid(): Cid | undefined {
    return this.#observedCid;
  }

  /** Whether the server's tool is what a client was told of it. Throws when it is not. */
  check(served: ToolContract, original: ToolContract = served): void {
    const now = this.#tools.get(original.name);
    if (now === undefined || now === toolCid(original)) return;
    const detail = `the tool "${served.name}" is not what was approved; a person has to look at the change first`;
    throw new BerthError("upstream_changed", detail);
  }
}
