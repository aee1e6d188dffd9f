import type { Principal } from "../access/principal.ts";
import type { CancelSignal } from "../lib/cancellation.ts";
import type { Cid } from "../lib/cid.ts";
import type { Json, JsonObject, JsonText } from "../lib/json.ts";
import type { Contract, PromptContract, ToolContract } from "../contract/contract.ts";
import type { CallerContext } from "../outcome/context.ts";
import type { TaskSupport } from "../discover/discovery.ts";
import type { GuestLog, InputRequests } from "../executor/executor.ts";
import type { Problem } from "../lib/problem.ts";
import type { Trace } from "../lib/trace.ts";

export type {
  Contract,
  PromptContract,
  ResourceContract,
  ResourceTemplateContract,
  ToolContract,
} from "../contract/contract.ts";
export type { GuestLog, InputRequest, InputRequests } from "../executor/executor.ts";

/**
 * The contract between what a server is and how a protocol shows it: the ready-to-serve form of one release.
 * Neutral of every MCP revision; whoever serves it may keep what it derives under `memo`, which lives and dies
 * with the release.
 */
export interface Catalog {
  readonly server: string;
  /** The version: the CID of the release. */
  readonly release: Cid;
  /** The CID of what a client sees. List results are as fresh as this is unchanged. */
  readonly contractCid: Cid;
  readonly contract: Contract;
  /** What the server's own functions hide from clients at present; the contract is without it. */
  readonly hidden: readonly Offer[];
  /** Asked for by its CID: it never becomes another. */
  readonly pinned?: boolean;
  /** Whether URIs can be read that no list shows, such as `cid://…`. */
  readonly readsUris?: boolean;
  readonly problems: readonly Problem[];
  /** Undefined when the contract names no such tool. */
  tool(name: string): Tool | undefined;
  /** The versions of a tool; undefined when the contract names no such tool. */
  readonly identity: (tool: string) => ToolIdentity | undefined;
  /** Undefined when no resource and no template gives this URI. */
  resource(uri: string): Promise<Resource | undefined>;
  /**
   * Whether a resource or template of the contract gives this URI. Like `identity`, it is made apart from the catalog:
   * whoever keeps it keeps little.
   */
  readonly gives: (uri: string) => boolean | Promise<boolean>;
  /** It may have resources that its contract does not name, as servers of others do. */
  readonly hasUnlisted?: boolean;
  /** Undefined when the contract names no such prompt. */
  prompt(name: string): Prompt | undefined;
  /** Undefined when nobody completes this argument. `of` is a prompt's name or a template as the contract has it. */
  completer(of: string, argument: string): Completer | undefined;
  readonly memo: Map<string, unknown>;
  /** About what its contract takes in memory. */
  readonly heldBytes?: number;
  /** It shows only what some principals may use. */
  readonly isNarrowed?: boolean;
  /** How many it is composed of; one without it. */
  readonly servers?: number;
  /** The tools that start programs of this machine for whoever calls them. */
  readonly starting?: ReadonlySet<string>;
  /** What of it a principal may use, where that takes more than leaving out what its server's name forbids. */
  readonly narrow?: (principal: Principal) => Promise<Catalog>;
}

/** With the same contract and another implementation a tool looks as it did and may do something else. */
export interface ToolIdentity {
  /** Of the tool's contract. */
  readonly contract: Cid;
  /** Of what carries it out: the code, how it is called, and the options and arguments that are configured for it. */
  readonly implementation: Cid;
}

export interface Offer {
  readonly kind: "tool" | "prompt";
  readonly name: string;
}

/** A list of a server's contract that is another one now, or a resource whose content is. */
export type ServerChange =
  | { readonly kind: "tools" | "resources" | "prompts" }
  /** Where all servers are watched, `server` is the one that says so. */
  | { readonly kind: "resource"; readonly uri: string; readonly server?: string };

/**
 * Each of these runs guest code. A failure of a tool is a result with `isError`; reading and prompting have no such
 * result, so they reject with `guest_failed`, and so does a tool whose function throws a `protocolError`. Bad arguments of a prompt reject with `invalid_params`, and a resource
 * whose function knows nothing under its URI with `resource_not_found` (data: the `uri`).
 */
export interface Tool {
  readonly contract: ToolContract;
  /** Its calls can be tasks. No part of the contract, because the revisions show it in ways of their own. */
  readonly task?: TaskSupport;
  call(args: JsonObject | JsonText, options: CallOptions): Promise<CallResult | InputRequired>;
}

export interface Resource {
  read(options: CallOptions): Promise<ReadResult | InputRequired>;
}

export interface Prompt {
  readonly contract: PromptContract;
  get(args: JsonObject, options: CallOptions): Promise<PromptResult | InputRequired>;
}

export interface Completer {
  /** `others` are the arguments that are filled in already. */
  complete(value: string, others: JsonObject, options: CallOptions): Promise<Completion>;
}

export interface CallOptions {
  /** Whose call it is; undefined where nobody is asked for a token. */
  readonly principal?: Principal;
  readonly signal?: CancelSignal;
  /** A promise asks the guest to wait until it settles. */
  readonly onProgress?: (event: Json) => void | Promise<void>;
  readonly onLog?: (line: GuestLog) => void;
  /** What the client answered so far, by the keys of the input requests. */
  readonly answers?: JsonObject;
  /** What the caller says of the context of its call (`_meta`). */
  readonly context?: CallerContext;
  /** Of the request that the call belongs to. */
  readonly trace?: Trace | undefined;
  /** Who calls. A function may look at it, so as to ask only for what the client can do. */
  readonly client?: ClientFacts;
  /** The function says that from here on it is a task: the caller need not wait for the result. At most once. */
  readonly onTask?: () => void;
  /** The function would rather not hold the connection while it works: end it if the client can come back to it. */
  readonly onCloseStream?: () => void;
  /** Milliseconds from now, instead of the limit of a call: a task may take longer. */
  readonly deadlineMs?: number;
  /** How many functions have led on to this one. */
  readonly followed?: number;
  /** Arguments that do not fit the schema reject with `invalid_params`, which else is a result of a tool. */
  readonly invalidRejects?: boolean;
  /**
   * Hears of the address, an external one or a path of this service, that the function's redirect leads to, instead
   * of having it followed; the result says nothing then. What has no address over HTTP is followed all the same.
   */
  readonly onRedirect?: (address: string) => void;
  /** A tool whose guest does not finish rejects with `guest_failed` (data: `retriable`), which else is a result. */
  readonly failuresReject?: boolean;
}

export interface ClientFacts {
  readonly name?: string;
  readonly version?: string;
  readonly capabilities: JsonObject;
}

/** The call cannot go on without answers; it is to be made again with all of them. */
export interface InputRequired {
  readonly inputRequests: InputRequests;
}

export interface ReadResult {
  readonly contents: readonly ResourceContents[];
}

export type ResourceContents = { readonly uri: string; readonly mimeType?: string } & (
  | { readonly text: string }
  | { readonly blob: string }
);

export interface PromptResult {
  readonly description?: string;
  readonly messages: readonly { readonly role: "user" | "assistant"; readonly content: ContentBlock }[];
}

export interface Completion {
  /** At most 100. */
  readonly values: readonly string[];
  readonly total: number;
  readonly hasMore: boolean;
}

/** A result as every revision knows it; `structuredContent` may be any JSON value. */
export interface CallResult {
  readonly content: readonly ContentBlock[];
  readonly structuredContent?: Json;
  readonly isError?: boolean;
}

export type ContentBlock = JsonObject & { type: string };
