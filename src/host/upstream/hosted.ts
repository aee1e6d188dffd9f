import { jsonBlock, type Cid } from "../../cid.ts";
import { BerthError } from "../../errors.ts";
import type { Launch } from "../../upstream/launch.ts";
import type { Observed, Upstream, UpstreamOptions } from "../../upstream/upstream.ts";
import { identityOf } from "./judge.ts";
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
  #offered = new Map<string, Cid>();

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
        const { tools, prompts } = observed.contract;
        this.#offered = new Map([
          ...tools.map((tool) => [keyOf("tool", tool.name), identityOf(tool)] as const),
          ...prompts.map((prompt) => [keyOf("prompt", prompt.name), identityOf(prompt)] as const),
        ]);
        if (before !== undefined && before !== cid) listener.onChange();
        return Promise.resolve();
      },
    });
  }

  get observed(): Observed | undefined {
    return this.#observed;
  }

  /** Throws when the server has none of that name any more, or another one: `served` is the one wanted. */
  check(kind: HeldKind, name: string, served: Cid): void {
    const now = this.#offered.get(keyOf(kind, name));
    if (now === served) return;
    if (now !== undefined) throw heldBack(kind, name);
    throw new BerthError("upstream_changed", `it has no ${kind} "${name}" any more`);
  }
}

/** What is held back when it is another one than was approved. */
export type HeldKind = "tool" | "prompt";

function keyOf(kind: HeldKind, name: string): string {
  return `${kind} ${name}`;
}

export function heldBack(kind: HeldKind, name: string): BerthError {
  const detail = `the ${kind} "${name}" is not what was approved; it is held back until a person approves the change`;
  return new BerthError("upstream_changed", detail);
}
