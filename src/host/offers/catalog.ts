import type { Principal } from "../../access/principal.ts";
import type { ContentBlock, PromptResult } from "../../contract/content-block.ts";
import type { Contract, PromptContract, ToolContract } from "../../contract/contract.ts";
import type { Icon } from "../../contract/icons.ts";
import type { RequestedGrant, TaskSupport } from "../../discover/discovery.ts";
import type { GuestLog, InputRequests } from "../../executor/executor.ts";
import type { CancelSignal } from "../../lib/cancellation.ts";
import type { Cid } from "../../lib/cid.ts";
import type { Json, JsonObject, JsonText } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import type { Trace } from "../../lib/trace.ts";
import type { CallerContext } from "../../outcome/context.ts";
import type { TaskOfUpstream } from "../../upstream/messages/request.ts";

export type {
  Contract,
  PromptContract,
  ResourceContract,
  ResourceTemplateContract,
  ToolContract,
} from "../../contract/contract.ts";
export type { ContentBlock, PromptResult } from "../../contract/content-block.ts";
export type { GuestLog, InputRequest, InputRequests } from "../../executor/executor.ts";

/**
 * The ready-to-serve form of one release: the interface between a server and the protocols that show it. It is
 * independent of MCP revisions; a protocol may cache what it derives in `memo`, which lives as long as the release.
 */
export interface Catalog {
  readonly server: string;
  /** The version: the CID of the release. */
  readonly release: Cid;
  /** The CID of what a client sees. List results stay fresh while it is unchanged. */
  readonly contractCid: Cid;
  readonly contract: Contract;
  /** Shown by clients beside the name of the server. */
  readonly icons?: readonly Icon[];
  /** Offers that the server's own functions hide from clients now; the contract leaves them out. */
  readonly hidden: readonly Offer[];
  /** The tools that its source has, offered or not: what an entry can choose from. */
  readonly functions?: readonly string[];
  /** Requested by its CID: it never changes. */
  readonly pinned?: boolean;
  /** True when clients can read URIs that no list shows, such as `cid://…`. */
  readonly readsUris?: boolean;
  readonly problems: readonly Problem[];
  /** The grants that its code requests and its entry does not give. */
  readonly ungranted?: readonly RequestedGrant[];
  /** Undefined when the contract names no such tool. */
  tool(name: string): Tool | undefined;
  /** The versions of a tool; undefined when the contract names no such tool. */
  readonly identity: (tool: string) => ToolIdentity | undefined;
  /** Undefined when no resource and no template gives this URI. */
  resource(uri: string): Promise<Resource | undefined>;
  /**
   * Tells if a resource or template of the contract gives this URI. Like `identity`, it is made apart from the catalog,
   * so it is cheap to keep.
   */
  readonly servesUri: (uri: string) => boolean | Promise<boolean>;
  /** It may have resources that its contract does not name, as upstreams do. */
  readonly hasUnlisted?: boolean;
  /** Undefined when the contract names no such prompt. */
  prompt(name: string): Prompt | undefined;
  /** Undefined when nothing completes this argument. `of` is a prompt's name, or a template as the contract has it. */
  completer(of: string, argument: string): Completer | undefined;
  readonly memo: Map<string, unknown>;
  /** Approximate memory use of its contract. */
  readonly heldBytes?: number;
  /** Narrowed to what some principals may use. */
  readonly isNarrowed?: boolean;
  /** The language of its definition; absent where there is none. */
  readonly language?: "typescript" | "shell";
  /** How many servers it is composed of; one if absent. */
  readonly servers?: number;
  /** The tools that start programs on this machine for their caller. */
  readonly starting?: ReadonlySet<string>;
  /** Narrows the catalog to what a principal may use, when filtering by its server's name is not enough. */
  readonly narrow?: (principal: Principal) => Promise<Catalog>;
}

/** With the same contract and another implementation, a tool looks the same but may act differently. */
export interface ToolIdentity {
  /** The CID of the tool's contract. */
  readonly contract: Cid;
  /** The CID of its implementation: the code, how it is called, and its configured options and arguments. */
  readonly implementation: Cid;
}

export interface Offer {
  readonly kind: "tool" | "prompt";
  readonly name: string;
}

/** A list of a server's contract, or a resource's content, that has changed. */
export type ServerChange =
  | { readonly kind: "tools" | "resources" | "prompts" }
  /** When all servers are watched, `server` is the one that reports the change. */
  | { readonly kind: "resource"; readonly uri: string; readonly server?: string };

/**
 * Each of these interfaces runs guest code. A tool's failure is a result with `isError`; resources and prompts have no
 * such result and reject with `guest_failed`, as does a tool whose function throws a `protocolError`. A prompt's bad
 * arguments reject with `invalid_params`; a resource whose function knows nothing under its URI rejects with
 * `resource_not_found` (data: the `uri`).
 */
export interface Tool {
  readonly contract: ToolContract;
  /** Its calls can be tasks. Not part of the contract, because each revision shows it in its own way. */
  readonly task?: TaskSupport;
  /** True if each call needs the consent of the user; absent for a tool that never asks. */
  asksConsent?(): boolean | Promise<boolean>;
  call(args: JsonObject | JsonText, options: CallOptions): Promise<CallResult | InputRequired>;
  /** Ends a task of the upstream that no call follows now. Absent where there are none. */
  readonly cancelTask?: (task: TaskOfUpstream, options: CallOptions) => Promise<void>;
}

export interface Resource {
  read(options: CallOptions): Promise<ReadResult | InputRequired>;
}

export interface Prompt {
  readonly contract: PromptContract;
  get(args: JsonObject, options: CallOptions): Promise<PromptResult | InputRequired>;
}

export interface Completer {
  /** `others` are the arguments already filled in. */
  complete(value: string, others: JsonObject, options: CallOptions): Promise<Completion>;
}

export interface CallOptions {
  /** The calling principal; undefined when no token is required. */
  readonly principal?: Principal;
  readonly signal?: CancelSignal;
  /** A returned promise makes the guest wait until it settles. */
  readonly onProgress?: (event: Json) => void | Promise<void>;
  readonly onLog?: (line: GuestLog) => void;
  /** The client's answers so far, by the keys of the input requests. */
  readonly answers?: JsonObject;
  /** The context that the caller gives for its call (`_meta`). */
  readonly context?: CallerContext;
  /** The other members of its `_meta`, which an upstream gets. */
  readonly meta?: JsonObject | undefined;
  /** The trace of the request that the call belongs to. */
  readonly trace?: Trace | undefined;
  /** The calling client. A function may read it, to ask only for what the client can do. */
  readonly client?: ClientFacts;
  /** That client is of the legacy era. */
  readonly isLegacy?: boolean;
  /**
   * Called at most once, when the function becomes a task: the caller need not wait for the result. An upstream's call has
   * become the given task of the upstream.
   */
  readonly onTask?: (task?: TaskOfUpstream) => void;
  /** The call has become this task of its upstream before: it is only followed. */
  readonly task?: TaskOfUpstream | undefined;
  /** The client could say that it takes tasks, and does not: an upstream is told so, and may refuse the call. */
  readonly refusesTasks?: boolean;
  /** Called when the function prefers not to hold the connection while it works: end it if the client can reconnect. */
  readonly onCloseStream?: () => void;
  /** Milliseconds from now, in place of the call limit: a task may take longer. */
  readonly deadlineMs?: number;
  /** How many functions led to this call. */
  readonly hops?: number;
  /** Makes invalid arguments reject with `invalid_params` instead of giving a tool result. */
  readonly invalidRejects?: boolean;
  /**
   * Receives the target of the function's redirect, an external address or a path of this service, which is then not
   * followed; the result says nothing. A target without an HTTP address is followed all the same.
   */
  readonly onRedirect?: (address: string) => void;
  /**
   * Makes a tool whose guest does not finish reject with `guest_failed` (data: `retriable`) instead of giving a result.
   */
  readonly failuresReject?: boolean;
}

export interface ClientFacts {
  readonly name?: string;
  readonly version?: string;
  readonly capabilities: JsonObject;
}

/** The call needs answers; repeat it with all of them. */
export interface InputRequired {
  readonly inputRequests: InputRequests;
  /** The remedy where the client cannot be asked. */
  readonly hint?: string;
}

export interface ReadResult extends AnyOutput {
  readonly contents: readonly ResourceContents[];
}

export type ResourceContents = { readonly uri: string; readonly mimeType?: string; readonly _meta?: JsonObject } & (
  | { readonly text: string }
  | { readonly blob: string }
);

export interface Completion {
  /** At most 100. */
  readonly values: readonly string[];
  readonly total: number;
  readonly hasMore: boolean;
}

/** Any result. An upstream's may have further fields, which are passed on. */
export interface AnyOutput {
  readonly _meta?: JsonObject;
}

/** A result as every revision knows it; `structuredContent` may be any JSON value. */
export interface CallResult extends AnyOutput {
  readonly content: readonly ContentBlock[];
  readonly structuredContent?: Json;
  readonly isError?: boolean;
}
