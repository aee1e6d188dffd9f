import { setTimeout as after } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { CallNotAccepted } from "../../cluster/node-calls.ts";
import type { Contract, ContractList } from "../../contract/contract.ts";
import { stableForm } from "../../contract/stable-form.ts";
import {
  byKey,
  withheldKinds,
  listItems,
  type WithheldItem,
  type WithheldKind,
} from "../../contract/withheld-items.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import type { CancelSignal } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { isSameJson, type JsonObject } from "../../lib/json.ts";
import type { Lease } from "../../lib/node-store.ts";
import type { Problem } from "../../lib/problem.ts";
import type { Observed } from "../../upstream/calls/observe.ts";
import type { Launch } from "../../upstream/launch/launch.ts";
import type { TaskOfUpstream } from "../../upstream/messages/request.ts";
import type { Upstream, UpstreamOptions, UpstreamRequest } from "../../upstream/upstream.ts";
import type { CallOptions } from "../offers/catalog.ts";
import { cidOf, isSubstantialChange, makeCids } from "../offers/contract-cids.ts";
import { noOwner, type Elsewhere } from "./other-nodes.ts";
import type { Owner } from "./owner.ts";
import type { RememberedChanges } from "./remembered.ts";
import {
  askerIn,
  callIsGone,
  SuspendedCalls,
  type ResultOf,
  type RoundEnd,
  type SuspendedLimits,
} from "./upstream-call.ts";

/** Opens an upstream for its host; what else the connection needs is already bound. */
export type OpenUpstream = (launch: Launch, listener: UpstreamListener) => Upstream;

export type UpstreamListener = Pick<
  UpstreamOptions,
  "capabilities" | "check" | "onContract" | "onResourceUpdated" | "onLost" | "onError" | "takePlace"
>;

/** The other nodes, as far as one upstream needs them. */
export interface HostedNodes {
  /** This one's id. */
  readonly id: string;
  /** Undefined for an upstream that runs on each. */
  readonly owner: Owner | undefined;
  readonly elsewhere: Elsewhere;
  /** How long it takes until another node takes over from one that was killed. */
  readonly takeOverMs: number;
  isThere(node: string): boolean;
}

/** How long a call waits for a node to run its upstream, while one ends and the next begins. */
const OWNER_MS = 2_000;
const OWNER_LOOK_MS = 200;
const FOLLOW_RETRY_MS_MAX = 5_000;
const LEAVE_LOOK_MS = 50;

/**
 * One upstream, hosted under one name, with what was last seen of it. It runs here, or on another node, to which calls
 * are forwarded: once, never by a node that was itself called for it.
 */
export class HostedUpstream {
  readonly upstream: Upstream;
  readonly suspended: SuspendedCalls;
  readonly nodes: HostedNodes | undefined;
  #observed: Observed | undefined;
  #remembered: RememberedChanges | undefined;
  /** The contract, and the entry, for which the record was last written by this process. */
  #written: { readonly seen: Contract | undefined; readonly entry: ServerEntry } | undefined;
  #offered: Offered = { tool: new Map(), prompt: new Map(), skill: new Map() };
  #looks = 0;
  /** The problems that were reported last. */
  #reported: readonly Problem[] = [];
  readonly #onProblems: (problems: readonly Problem[]) => void;
  readonly #onChange: () => void;
  /** The CID of the contract that the node which runs it last reported. */
  #offeredElsewhere: string | undefined;
  #isFollowing = false;
  #isClosed = false;

  /** `onChange` is called when the upstream offers something else, or has other problems, than when it was last seen. */
  constructor(
    launch: Launch,
    open: OpenUpstream,
    limits: SuspendedLimits,
    listener: Omit<UpstreamListener, "check" | "onContract"> & {
      onChange: () => void;
      onProblems: (problems: readonly Problem[]) => void;
    },
    nodesOf?: (hosted: HostedUpstream) => HostedNodes | undefined,
  ) {
    this.#onChange = listener.onChange;
    this.#onProblems = listener.onProblems;
    this.upstream = open(launch, {
      ...listener,
      check: (request) => this.#check(request),
      onContract: (observed) => this.#see(observed),
    });
    this.nodes = nodesOf?.(this);
    this.suspended = new SuspendedCalls(this.upstream, limits, this.nodes?.id ?? "");
  }

  /** The last observation of it; undefined until it was first seen. */
  get observed(): Observed | undefined {
    return this.#observed;
  }

  /** The record to use where nothing can be stored. */
  get remembered(): RememberedChanges | undefined {
    return this.#remembered;
  }

  /** Sets the record; `written` says for what, if this process has stored it. */
  remember(record: RememberedChanges, written = this.#written): void {
    this.#remembered = record;
    this.#written = written;
  }

  /** True if this process has stored the record for this contract and entry. */
  hasWritten(seen: Contract | undefined, entry: ServerEntry): boolean {
    return this.#written?.seen === seen && this.#written?.entry === entry;
  }

  /** Begins a call, or resumes the one that the answers are for. Rejects when that one is gone. */
  async run<Request extends UpstreamRequest>(
    request: Request,
    options: CallOptions,
  ): Promise<RoundEnd<ResultOf<Request>>> {
    const resumed = options.answers && (await this.#resume(request, options, options.answers));
    if (resumed) return resumed as RoundEnd<ResultOf<Request>>;
    const task = "task" in request ? request.task : undefined;
    const there = task && (await this.#atProgram(task, request, options));
    if (there) return there as RoundEnd<ResultOf<Request>>;
    const owner = this.nodes?.owner;
    if (!owner || owner.isHere) return this.suspended.begin(request, options);
    const begun = await this.#where(
      options.signal,
      () => this.suspended.begin(request, options),
      ({ node, fence }, { elsewhere }) => elsewhere.round(node, { ask: "begin", fence }, request, options),
    );
    return begun as RoundEnd<ResultOf<Request>>;
  }

  /** Starts the server where it is to run if it does not run, so that its contract is known. */
  start(): Promise<void> {
    return this.#where(
      undefined,
      () => this.upstream.start(),
      async ({ node, fence }, { elsewhere }) => this.#see(await elsewhere.offers(node, fence)),
    );
  }

  /** True where another node ran it when it was last looked for. */
  get runsElsewhere(): boolean {
    return this.nodes?.owner?.elsewhere !== undefined;
  }

  /** Leaves it to another node, as soon as nothing of it is under way here. */
  async leave(): Promise<void> {
    const { upstream } = this;
    await this.nodes?.owner?.release(async () => {
      do {
        await upstream.rest();
        if (upstream.health.requests > 0) await after(LEAVE_LOOK_MS);
      } while (upstream.health.requests > 0);
    });
  }

  /** Ends it here, for good. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const close = (): Promise<void> => this.upstream.close();
    await (this.nodes?.owner?.end(close) ?? close());
  }

  /**
   * The node that runs it reports the CID of the contract that it offers: reads that contract if it is another one.
   * Without a CID, a report may have been missed.
   */
  followOffers(offers?: string): void {
    this.#offeredElsewhere = offers;
    if (!this.#isFollowing) void this.#follow().finally(() => (this.#isFollowing = false));
  }

  /** A change is reported once, so a failed read is repeated, and so is one during which another change was reported. */
  async #follow(): Promise<void> {
    this.#isFollowing = true;
    for (let retryMs = OWNER_LOOK_MS; !this.#isClosed; retryMs = Math.min(2 * retryMs, FOLLOW_RETRY_MS_MAX)) {
      const offers = this.#offeredElsewhere;
      const known = this.#observed?.contract ?? this.#remembered?.observed;
      if (!known || cidOf(known) === offers) return;
      const isRead = await this.start().then(
        () => true,
        () => false,
      );
      if (offers !== this.#offeredElsewhere) continue;
      if (isRead || this.nodes?.owner?.isHere) return;
      await after(retryMs, undefined, { ref: false });
    }
  }

  /** Does something on the node that runs the upstream: here, which may mean to run it from now on, or there. */
  async #where<Done>(
    signal: CancelSignal | undefined,
    here: () => Promise<Done>,
    there: (lease: Lease, nodes: HostedNodes) => Promise<Done>,
  ): Promise<Done> {
    const { nodes } = this;
    if (!nodes?.owner) return here();
    const until = performance.now() + OWNER_MS;
    for (;;) {
      const lease = await nodes.owner.find();
      if (!lease) return here();
      try {
        return await there(lease, nodes);
      } catch (error) {
        if (!(error instanceof CallNotAccepted)) throw error;
        nodes.owner.forget(lease);
        if (performance.now() >= until) throw noOwner(error, Math.ceil(nodes.takeOverMs / 1000));
        await after(OWNER_LOOK_MS);
        if (signal?.aborted) throw new BerthError("cancelled");
      }
    }
  }

  /** Undefined where the answers are for no call that is suspended; rejects when they can be for no other one. */
  async #resume(
    request: UpstreamRequest,
    options: CallOptions,
    answers: JsonObject,
  ): Promise<RoundEnd<object> | undefined> {
    const here = this.suspended.resume(options);
    if (here) return here;
    const asker = askerIn(answers);
    if (!asker) return undefined;
    const { nodes } = this;
    if (nodes?.isThere(asker.node)) {
      const resuming = nodes.elsewhere.round(asker.node, { ask: "resume" }, request, options);
      const resumed = await resuming.catch((error: unknown) => {
        if (error instanceof CallNotAccepted) return undefined;
        throw error;
      });
      if (resumed) return resumed;
    }
    // A task can be asked what it still needs to know.
    if (asker.isOwed && !options.task) throw callIsGone();
    return undefined;
  }

  /** Ends a task of the upstream that no call follows now. */
  async cancelTask(task: TaskOfUpstream, options: CallOptions): Promise<void> {
    if (this.suspended.cancelTask(task, options.principal?.id)) return;
    await this.run({ method: "tasks/cancel", task }, options);
  }

  /** Undefined unless the task is of a program of another node, which runs its own. */
  async #atProgram(
    { node, program }: TaskOfUpstream,
    request: UpstreamRequest,
    options: CallOptions,
  ): Promise<RoundEnd<object> | undefined> {
    const { nodes } = this;
    if (program === undefined || node === undefined || !nodes || nodes.owner || node === nodes.id) return undefined;
    // Where that node is gone, the program of this one says that it never had the task.
    if (!nodes.isThere(node)) return undefined;
    return nodes.elsewhere.round(node, { ask: "task" }, request, options).catch((error: unknown) => {
      if (error instanceof CallNotAccepted) return undefined;
      throw error;
    });
  }

  /** Throws when the upstream no longer has an item of that name, or has one that differs from the served one. */
  #check(request: UpstreamRequest): void {
    if (!("served" in request && request.served)) return;
    const { served, name = "", method } = request;
    const kind = KINDS[method];
    const item = this.#offered[kind].get(name);
    if (item !== undefined) {
      const isOffered =
        typeof served === "string"
          ? served === cidOf(item) || request.servedForm === cidOf(stableForm(item))
          : served === item || !isSubstantialChange(served, item);
      if (isOffered) return;
      throw withheldError(kind, name);
    }
    throw new BerthError("upstream_changed", `it no longer has the ${kind} "${name}"`);
  }

  async #see(observed: Observed): Promise<void> {
    const { problems } = observed;
    const isKnown = (this.#observed ?? this.#remembered) !== undefined;
    const isChanged = await this.#take(observed);
    // A server reports the same problems at each start.
    const hasOtherProblems = !isSameJson(problems, this.#reported);
    this.#reported = problems;
    if (hasOtherProblems && problems.length > 0) this.#onProblems(problems);
    if (isChanged || (isKnown && hasOtherProblems)) this.#onChange();
  }

  /** Resolves with true when the contract, or its problems, differ from those last seen. */
  async #take(observed: Observed): Promise<boolean> {
    const known = this.#observed?.contract ?? this.#remembered?.observed;
    const contract = withKnown(observed, known);
    const look = ++this.#looks;
    await makeCids(contract);
    // A later look has seen the current contract.
    if (look !== this.#looks) return false;
    const last = this.#observed?.contract;
    if (last && cidOf(last) === cidOf(contract)) {
      const known = this.#observed!.problems;
      this.#observed = { ...observed, contract: last };
      return !isDeepStrictEqual(known, observed.problems);
    }
    // What is seen first may differ from what an earlier run of Berth saw.
    const before = last ?? this.#remembered?.observed;
    this.#observed = { ...observed, contract };
    this.#offered = Object.fromEntries(
      withheldKinds.map((kind) => [kind, byKey(kind, listItems(contract, kind))]),
    ) as unknown as Offered;
    return before !== undefined && cidOf(before) !== cidOf(contract);
  }
}

/** The contract with the lists as they were known where they fail: their entries are unavailable, not removed. */
function withKnown({ contract, failed }: Observed, known: Contract | undefined): Contract {
  const lists: ContractList[] = failed.map(({ list }) => list).filter((list) => (known?.[list]?.length ?? 0) > 0);
  if (lists.length === 0) return contract;
  const apps = lists.includes("tools") && known?.apps;
  return { ...contract, ...Object.fromEntries(lists.map((list) => [list, known![list]])), ...(apps && { apps }) };
}

/** By name. */
type Offered = Readonly<Record<WithheldKind, ReadonlyMap<string, WithheldItem>>>;

const KINDS = { "tools/call": "tool", "prompts/get": "prompt", "resources/read": "skill" } as const;

export function withheldError(kind: WithheldKind, name: string): BerthError {
  const detail = `the ${kind} "${name}" has changed since it was approved; it is withheld until a person approves the change`;
  return new BerthError("upstream_changed", detail);
}
