/**
 * What a definition finds around it: the module "berth", and the globals and modules that guest code can use.
 * Berth checks definitions against exactly this file, and your editor does too when it stands in your folder.
 * Of the machine there are only the folders, the hosts and ports, and the environment that the server's entry in `mcps`
 * gives it. Everything else is in the context.
 *
 * Tags in the comment of an exported function say what it is, when it is no tool:
 *
 * - `@resource <uri or template> [media type]`: it is called when the URI is read. A template (RFC 6570) gives the
 *   function's parameters: `@resource notes://{year}/{title} text/markdown`. It returns a text, bytes, JSON, or
 *   `{ contents: [...] }`; nothing, or null, when there is no such resource.
 * - `@prompt`: its parameters are the prompt's arguments. It returns a text, a content block, a `PromptMessage`, a list
 *   of these, or `{ messages, description }`.
 * - `@completes <function>.<argument>`: `(value: string, others) => string[]` completes an argument of a prompt or a
 *   resource, `others` being the arguments that are filled in already. Without parameters it returns all values there
 *   are, and Berth chooses those that begin with what was typed.
 *
 * And about all of them:
 *
 * - `@name other/name` publishes a function under another name than its own.
 * - `@signature 2`: of a function with several signatures (overloads), the one that is offered, counted from 1; or
 *   `@signature` in the comment of that one. Without it they are offered together where one schema takes exactly what
 *   they take, otherwise the one that can be given most.
 * - `@header Name`, at an argument or a property: clients repeat the value in the HTTP header `Mcp-Param-Name`.
 * - `@task`: the tool's calls can be tasks, which go on while the client does something else. `@task required` is for
 *   clients that know tasks only; with `@task deferred` a call becomes one when the function says `context.startTask()`.
 * - `@inputSchema { "type": "object", ... }`: the arguments of a tool in your own JSON Schema 2020-12, which goes before
 *   the types. A lone parameter that is not named after a property takes all arguments as one object.
 */

declare module "berth" {
  /**
   * The host, as the last parameter of a function: `context: ToolContext`. It is not one of the tool's arguments;
   * clients neither see nor give it. Its type is what tells it from an argument, not its name; without a type, a last
   * parameter called `context` is the host's.
   */
  export interface ToolContext {
    /** Aborted when the caller cancels, goes away, or the call's time is up. Pass it on to whatever takes a signal. */
    readonly signal: AbortSignal;
    /** The server that is called. */
    readonly server: string;
    /** The tool that is called. */
    readonly tool: string;
    /**
     * What the client has answered so far, by the question's key; an answer to a `needs_input` outcome is the value
     * itself, by the question's id. Empty in the first call.
     */
    readonly answers: Readonly<Record<string, Json>>;
    /** What the caller wants: that the tool does its work, or only that it says how its arguments would be shown. */
    readonly action: "run" | "format_arguments";
    /** The folder that the call is about, when the caller names one. */
    readonly root?: string;
    /** Who calls, and what it can do: ask only for that. */
    readonly client: Client;
    /** Of the request that the call belongs to, as the caller's answer and Berth's log name it. */
    readonly requestId: string;
    /** The trace that the caller's request belongs to, when it says so: W3C Trace Context and Baggage, to hand on. */
    readonly trace?: { readonly traceparent?: string; readonly tracestate?: string; readonly baggage?: string };
    /** Settings for this tool from the server's configuration. */
    readonly options: Readonly<Record<string, Json>>;
    /** Log lines for the client and the operator. `console.log` becomes one too. */
    readonly log: Log;

    /**
     * Tells the caller how far the work is. Await it in long loops: it then keeps you from running ahead of a slow
     * reader. An `async function*` has it built in, since each of its yields is progress.
     */
    progress(event: ProgressEvent | Json): Promise<void> | undefined;

    /**
     * Asks the user to fill in a form. The first time, the call ends here: the client asks, and then calls again. Your
     * function runs again from its top, and the same question gives the answer. So keep what is before a question
     * free of effects, or have it be the same twice.
     *
     * Questions are told apart by their order, or by a `key` of your own, which you need where the order can change.
     * Those that are asked side by side (`Promise.all`) are shown together.
     */
    elicit<const Schema extends FormSchema>(question: {
      message: string;
      schema: Schema;
      key?: string;
    }): Promise<FormAnswer<Schema>>;
    /** Asks the user to open a page and do something there; `accept` says that it was opened, not that it is done. */
    elicitUrl(question: { message: string; url: string; key?: string }): Promise<{ action: AnswerAction }>;
    /** Asks the client's model, as `elicit` asks the user. */
    sample(question: Sampling): Promise<Sampled>;
    /** Asks the client for the folders that it works in, as `elicit` asks the user. */
    roots(question?: { key?: string }): Promise<Root[]>;

    /**
     * Makes the call of a `@task deferred` tool a task: the caller gets a receipt now, and the result when it asks for
     * it. For clients that know no tasks it does nothing.
     */
    startTask(): void;
    /**
     * Lets go of the connection that the call came over, when the work takes long: a client that can comes back for the
     * result. For other clients it does nothing.
     */
    closeStream(): void;
    /** An error to throw when the request itself fails, and not just the work in it: clients get no result then. */
    protocolError(message: string): Error;

    /** What this server keeps from one call to the next. */
    readonly state: State;

    /** Tells those who subscribed to a resource that its content is another one now. */
    resourceUpdated(uri: string): Promise<void>;
    /** The tools and prompts of this server, and whether clients see them. */
    listOffers(): Promise<Offer[]>;
    /** Takes a tool or a prompt out of this server's lists until it is shown again; a restart changes nothing. */
    hide(name: string): Promise<void>;
    /** Puts it back. */
    show(name: string): Promise<void>;

    /** The text of a variable; undefined when there is none of that name. */
    variable(name: string): Promise<string | undefined>;
    /** The text of a secret that is granted to this server; undefined when there is none. Never log it. */
    secret(name: string): Promise<string | undefined>;
    /** Where the folders of the machine are that this server is given, by name: for Node's `fs`. */
    readonly folders: Readonly<Record<string, string>>;
    /** The content that a CID names; undefined when there is none. */
    cid(cid: string): Promise<Uint8Array | undefined>;
    /** Like the global `fetch`; the host carries it out, and only to addresses that are granted to this server. */
    fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;
  }

  /**
   * Values by key that a server keeps under its own name: they outlive calls, processes, releases and restarts, and no
   * other server and no other tenant reaches them. Keys are texts of at most 512 bytes without control characters;
   * values are JSON, or bytes (`Uint8Array`), of at most 64 KiB.
   *
   * Nothing is remembered between two requests, since other calls write too. When it resolves, a write is on the disk.
   * What fails because the store does has `code: "store_failed"` and is transient: Berth tries the call again.
   */
  export interface State {
    /** The value under a key; undefined when there is none. You know its type: `get<Note>("notes/today")`. */
    get<Value = any>(key: string): Promise<Value | undefined>;
    /** The value with its version, for `compareAndSet`. */
    entry<Value = any>(key: string): Promise<StateEntry<Value> | undefined>;
    /**
     * Returns the version, which is greater than all before. The value is what `JSON.stringify` makes of it, which has to
     * say all of it, or bytes. `expiresInMs` milliseconds later it is gone; without it, it stays until it is deleted.
     */
    set(key: string, value: unknown, options?: StateOptions): Promise<number>;
    /**
     * As `set`, if nobody else was first: `version` is the one that you have read, and 0 where there was no value.
     * Undefined when somebody was, and nothing is written.
     */
    compareAndSet(key: string, version: number, value: unknown, options?: StateOptions): Promise<number | undefined>;
    /**
     * Reads a value, has `change` make another of it, and writes it; from the start when somebody else wrote meanwhile,
     * so `change` may run several times. Returns what was written.
     */
    update<Value = any>(
      key: string,
      change: (value: Value | undefined) => Value | Promise<Value>,
      options?: StateOptions,
    ): Promise<Value>;
    /** False when there is none; or, where a `version` is given, when it is another. */
    delete(key: string, version?: number): Promise<boolean>;
    /** The keys that begin with a prefix, sorted, up to 1,000 at a time: `next` is the `after` of the following ones. */
    list(options?: StateQuery & { values?: false }): Promise<StateList<StateFacts>>;
    /** The same with values, up to 256 KiB of them at a time. */
    list<Value = any>(options: StateQuery & { values: true }): Promise<StateList<StateFacts & StateEntry<Value>>>;
  }

  export interface StateOptions {
    /** Milliseconds from now. */
    readonly expiresInMs?: number;
  }

  export interface StateEntry<Value = any> {
    readonly value: Value;
    readonly version: number;
    /** Milliseconds since the epoch. */
    readonly changedAt: number;
    readonly expiresAt?: number;
  }

  export interface StateFacts extends Omit<StateEntry, "value"> {
    readonly key: string;
    /** Of the value. */
    readonly bytes: number;
  }

  export interface StateQuery {
    readonly prefix?: string;
    /** The last key that you have seen. */
    readonly after?: string;
    readonly limit?: number;
  }

  export interface StateList<Entry> {
    readonly entries: readonly Entry[];
    readonly next?: string;
  }

  export interface Client {
    readonly name?: string;
    readonly version?: string;
    /** As the protocol has them: `{ elicitation: {}, sampling: {} }`. */
    readonly capabilities: Readonly<Record<string, Json>>;
  }

  /** A form: one level of fields, each of one simple kind. */
  export interface FormSchema {
    readonly type: "object";
    readonly properties: { readonly [name: string]: FormField };
    readonly required?: readonly string[];
  }

  export type FormField = { readonly title?: string; readonly description?: string } & (
    | {
        readonly type: "string";
        readonly minLength?: number;
        readonly maxLength?: number;
        readonly format?: "email" | "uri" | "date" | "date-time";
        readonly default?: string;
      }
    | {
        readonly type: "number" | "integer";
        readonly minimum?: number;
        readonly maximum?: number;
        readonly default?: number;
      }
    | { readonly type: "boolean"; readonly default?: boolean }
    | {
        readonly type: "string";
        readonly enum: readonly string[];
        readonly enumNames?: readonly string[];
        readonly default?: string;
      }
    | { readonly type: "string"; readonly oneOf: readonly Choice[]; readonly default?: string }
    | {
        readonly type: "array";
        readonly items:
          | { readonly type: "string"; readonly enum: readonly string[] }
          | { readonly anyOf: readonly Choice[] };
        readonly minItems?: number;
        readonly maxItems?: number;
        readonly default?: readonly string[];
      }
  );

  export interface Choice {
    readonly const: string;
    readonly title: string;
  }

  export type AnswerAction = "accept" | "decline" | "cancel";

  /** With `action: "accept"`, the fields as the form says that they are: Berth has checked them. */
  export type FormAnswer<Schema extends FormSchema> =
    | { action: "accept"; content: FormContent<Schema> }
    | { action: "decline" | "cancel"; content?: undefined };

  type FormContent<Schema extends FormSchema> = {
    [Name in keyof Schema["properties"] as Name extends RequiredField<Schema> ? Name : never]: FieldValue<
      Schema["properties"][Name]
    >;
  } & {
    [Name in keyof Schema["properties"] as Name extends RequiredField<Schema> ? never : Name]?: FieldValue<
      Schema["properties"][Name]
    >;
  };

  type RequiredField<Schema extends FormSchema> = Schema extends { required: readonly (infer Name)[] } ? Name : never;

  type FieldValue<Field> = Field extends { enum: readonly (infer Value)[] }
    ? Value
    : Field extends { oneOf: readonly { const: infer Value }[] }
      ? Value
      : Field extends { items: { enum: readonly (infer Value)[] } | { anyOf: readonly { const: infer Value }[] } }
        ? Value[]
        : Field extends { type: "boolean" }
          ? boolean
          : Field extends { type: "number" | "integer" }
            ? number
            : Field extends { type: "string" }
              ? string
              : string | number | boolean | string[];

  export interface Sampling {
    /** A text stands for a block of text. */
    messages: { role: "user" | "assistant"; content: string | Text | Image | Audio }[];
    maxTokens: number;
    systemPrompt?: string;
    temperature?: number;
    stopSequences?: string[];
    modelPreferences?: {
      hints?: { name?: string }[];
      costPriority?: number;
      speedPriority?: number;
      intelligencePriority?: number;
    };
    metadata?: { [key: string]: Json };
    key?: string;
  }

  export interface Sampled {
    role: "user" | "assistant";
    content: Text | Image | Audio;
    model: string;
    stopReason?: string;
  }

  export interface Root {
    /** `file://…` */
    uri: string;
    name?: string;
  }

  export interface Offer {
    kind: "tool" | "prompt";
    name: string;
    visible: boolean;
  }

  /**
   * How a tool's call ended, as its result: content, an error that may be worth another try, or a question. Write it as
   * the function's return type; nothing else of the result has a schema then. Transitional: throw errors, and ask with
   * `context.elicit`, where you can. A thrown error is transient when it says so itself:
   * `throw Object.assign(new Error("busy"), { transient: true })`.
   */
  export type Outcome = SuccessOutcome | ErrorOutcome | QuestionOutcome;

  export interface SuccessOutcome {
    readonly type: "success";
    readonly content: string;
  }

  export interface ErrorOutcome {
    readonly type: "error";
    readonly message: string;
    /** What led to it, outermost first. */
    readonly trace?: readonly string[];
    /** Berth calls the function again, a few times, unless the tool is `@destructive` and not `@idempotent`. */
    readonly transient?: boolean;
  }

  /** The function is called again, with the answer in `context.answers` under the question's id. */
  export interface QuestionOutcome {
    readonly type: "needs_input";
    readonly question: {
      /** Not empty, and without dots. */
      readonly id: string;
      readonly text: string;
      readonly answer_type:
        | { readonly type: "boolean" }
        | { readonly type: "text" }
        | { readonly type: "select"; readonly options: readonly string[] };
      /** The answer where nobody can be asked. */
      readonly default?: Json;
    };
  }

  /** One of the messages that a `@prompt` returns. */
  export interface PromptMessage {
    role: "user" | "assistant";
    /** A text stands for a block of text. */
    content: string | ContentBlock;
  }

  /**
   * What a transform finds: a module that an entry of `mcps` names as `tools_transform_cid`, `resources_transform_cid`
   * or `prompts_transform_cid`. It exports `generateTools`, `generateResources` or `generatePrompts`, each
   * `(serverName: string, context: TransformContext)`, or one of them as its default. What it returns is added to what
   * the server has; an item of the same name, or URI, goes in the other's place; `{ name, hidden: true }` leaves one out.
   *
   * It runs once for a definition, an entry and its own code, so what it reads elsewhere is as it was then.
   */
  export interface TransformContext extends Pick<ToolContext, "signal" | "server" | "log" | "variable" | "cid"> {
    readonly description: string;
    /** The server's entry in `mcps`, as it is written. */
    readonly entry: { readonly [field: string]: Json };
    /** What the server has before any transform: discovered and configured. */
    readonly discovered: {
      readonly tools: readonly ListedTool[];
      readonly resources: readonly ListedResource[];
      readonly prompts: readonly ListedPrompt[];
      /** The tools of the definition, whether or not they are offered. */
      readonly functions: readonly ListedTool[];
    };
  }

  export interface ListedTool {
    readonly name: string;
    readonly title?: string;
    readonly description?: string;
    readonly inputSchema: { readonly [keyword: string]: Json };
    readonly outputSchema?: { readonly [keyword: string]: Json };
    readonly annotations?: ToolHints;
  }

  export interface ListedResource {
    readonly uri?: string;
    readonly uriTemplate?: string;
    readonly name: string;
    readonly title?: string;
    readonly description?: string;
    readonly mimeType?: string;
  }

  export interface ListedPrompt {
    readonly name: string;
    readonly title?: string;
    readonly description?: string;
    readonly arguments?: readonly PromptArgument[];
  }

  export interface ToolHints {
    readonly readOnlyHint?: boolean;
    readonly destructiveHint?: boolean;
    readonly idempotentHint?: boolean;
    readonly openWorldHint?: boolean;
  }

  /** One of the tools that `generateTools` returns. What is left out is as the function has it. */
  export interface GeneratedTool {
    name: string;
    /** The tool of the definition that carries it out. Default: the one of the same name. */
    function?: string;
    /** Arguments that are always these; clients neither see nor give them. */
    arguments?: { [name: string]: Json };
    title?: string;
    description?: string;
    /** JSON Schema 2020-12 with `"type": "object"`. */
    inputSchema?: { [keyword: string]: Json };
    outputSchema?: { [keyword: string]: Json };
    annotations?: ToolHints;
    /** Leaves out the tool of this name. */
    hidden?: boolean;
  }

  /** One of the resources that `generateResources` returns. */
  export interface GeneratedResource {
    uri?: string;
    /** RFC 6570, instead of `uri`. */
    uriTemplate?: string;
    name?: string;
    title?: string;
    description?: string;
    mimeType?: string;
    text?: string;
    /** Bytes as base64. */
    blob?: string;
    /** A `cid://`, `variable://` or `server://` URI whose content it has. */
    content?: string;
    /** Leaves out the resource of this URI. */
    hidden?: boolean;
  }

  /** One of the prompts that `generatePrompts` returns. `{{argument}}` in a message stands for the argument's value. */
  export interface GeneratedPrompt {
    name: string;
    title?: string;
    description?: string;
    arguments?: PromptArgument[];
    /** At least one, unless it is hidden. */
    messages?: PromptMessage[];
    /** Leaves out the prompt of this name. */
    hidden?: boolean;
  }

  export interface PromptArgument {
    name: string;
    title?: string;
    description?: string;
    required?: boolean;
  }

  export interface ProgressEvent {
    /** How much is done; it must grow with each event. */
    progress: number;
    /** How much there is in all, in the same unit. */
    total?: number;
    /** What is being done, for a person. */
    message?: string;
  }

  export type LogLevel = "debug" | "info" | "notice" | "warning" | "error" | "critical" | "alert" | "emergency";

  /** `context.log.info({ found: 3 })`. A line is a text or any JSON. */
  export type Log = { readonly [Level in LogLevel | "warn"]: (message: unknown) => void } & {
    /** The same under a name: `context.log.named("database").warning("slow")`. */
    named(logger: string): Log;
  };

  export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

  /**
   * What a function may return instead of plain data, when it wants to decide what the client shows: one block, a
   * list of blocks, or a whole result. Plain data needs none of this: return it, and its type becomes the schema.
   */
  export type ContentBlock = Text | Image | Audio | ResourceLink | EmbeddedResource;

  export interface Text {
    type: "text";
    text: string;
    annotations?: Annotations;
  }

  export interface Image {
    type: "image";
    /** Base64. */
    data: string;
    /** Such as `image/png`. */
    mimeType: string;
    annotations?: Annotations;
  }

  export interface Audio {
    type: "audio";
    /** Base64. */
    data: string;
    /** Such as `audio/wav`. */
    mimeType: string;
    annotations?: Annotations;
  }

  /** Something that the client can read later, by its URI. */
  export interface ResourceLink {
    type: "resource_link";
    uri: string;
    name: string;
    title?: string;
    description?: string;
    mimeType?: string;
    /** In bytes. */
    size?: number;
    annotations?: Annotations;
  }

  /** Something that stands in the result itself. */
  export interface EmbeddedResource {
    type: "resource";
    resource: { uri: string; mimeType?: string } & ({ text: string } | { blob: string });
    annotations?: Annotations;
  }

  export interface Annotations {
    audience?: ("user" | "assistant")[];
    /** From 0, may be left out, to 1, must be seen. */
    priority?: number;
    /** ISO 8601. */
    lastModified?: string;
  }

  /** A whole result. */
  export interface ToolResult {
    content: ContentBlock[];
    /** The same for programs. */
    structuredContent?: Json;
    /** The tool did not do what it was asked to. Throwing an error says the same. */
    isError?: boolean;
  }
}

// Globals. Only what exists in a guest is declared; the ES2022 library comes with the language.

interface AbortSignal extends EventTarget {
  readonly aborted: boolean;
  readonly reason: any;
  throwIfAborted(): void;
}
declare var AbortSignal: {
  readonly prototype: AbortSignal;
  abort(reason?: any): AbortSignal;
  any(signals: AbortSignal[]): AbortSignal;
  timeout(milliseconds: number): AbortSignal;
};

interface AbortController {
  readonly signal: AbortSignal;
  abort(reason?: any): void;
}
declare var AbortController: { readonly prototype: AbortController; new (): AbortController };

interface Event {
  readonly type: string;
  readonly target: EventTarget | null;
  preventDefault(): void;
}
declare var Event: { readonly prototype: Event; new (type: string): Event };

interface EventTarget {
  addEventListener(
    type: string,
    listener: (event: Event) => void,
    options?: { once?: boolean; signal?: AbortSignal },
  ): void;
  removeEventListener(type: string, listener: (event: Event) => void): void;
  dispatchEvent(event: Event): boolean;
}
declare var EventTarget: { readonly prototype: EventTarget; new (): EventTarget };

interface DOMException extends Error {
  readonly code: number;
}
declare var DOMException: { readonly prototype: DOMException; new (message?: string, name?: string): DOMException };

interface URL {
  hash: string;
  host: string;
  hostname: string;
  href: string;
  readonly origin: string;
  password: string;
  pathname: string;
  port: string;
  protocol: string;
  search: string;
  readonly searchParams: URLSearchParams;
  username: string;
  toString(): string;
  toJSON(): string;
}
declare var URL: {
  readonly prototype: URL;
  new (url: string | URL, base?: string | URL): URL;
  canParse(url: string | URL, base?: string | URL): boolean;
};

interface URLSearchParams extends Iterable<[string, string]> {
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  entries(): IterableIterator<[string, string]>;
  forEach(callback: (value: string, name: string) => void): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  keys(): IterableIterator<string>;
  set(name: string, value: string): void;
  sort(): void;
  toString(): string;
  values(): IterableIterator<string>;
}
declare var URLSearchParams: {
  readonly prototype: URLSearchParams;
  new (
    init?:
      | string
      | Record<string, string | readonly string[]>
      | Iterable<[string, string]>
      | string[][]
      | URLSearchParams,
  ): URLSearchParams;
};

interface Headers extends Iterable<[string, string]> {
  append(name: string, value: string): void;
  delete(name: string): void;
  entries(): IterableIterator<[string, string]>;
  forEach(callback: (value: string, name: string) => void): void;
  get(name: string): string | null;
  getSetCookie(): string[];
  has(name: string): boolean;
  keys(): IterableIterator<string>;
  set(name: string, value: string): void;
  values(): IterableIterator<string>;
}
type HeadersInit = Headers | Record<string, string> | [string, string][];
declare var Headers: { readonly prototype: Headers; new (init?: HeadersInit): Headers };

interface Body {
  readonly body: ReadableStream<Uint8Array> | null;
  readonly bodyUsed: boolean;
  arrayBuffer(): Promise<ArrayBuffer>;
  blob(): Promise<Blob>;
  formData(): Promise<FormData>;
  json(): Promise<any>;
  text(): Promise<string>;
}
type BodyInit = string | ArrayBuffer | ArrayBufferView | Blob | FormData | URLSearchParams | ReadableStream;

interface RequestInit {
  method?: string;
  headers?: HeadersInit;
  body?: BodyInit | null;
  redirect?: "follow" | "error" | "manual";
  signal?: AbortSignal | null;
}
interface Request extends Body {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly signal: AbortSignal;
  clone(): Request;
}
declare var Request: { readonly prototype: Request; new (input: string | URL | Request, init?: RequestInit): Request };

interface ResponseInit {
  status?: number;
  statusText?: string;
  headers?: HeadersInit;
}
interface Response extends Body {
  readonly headers: Headers;
  readonly ok: boolean;
  readonly redirected: boolean;
  readonly status: number;
  readonly statusText: string;
  readonly url: string;
  clone(): Response;
}
declare var Response: {
  readonly prototype: Response;
  new (body?: BodyInit | null, init?: ResponseInit): Response;
  error(): Response;
  json(data: any, init?: ResponseInit): Response;
  /** The result is what stands at another address. */
  redirect(url: string | URL, status?: number): Response;
};

/** Carried out by the host, as `context.fetch` is. */
declare function fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;

interface FormData extends Iterable<[string, string | File]> {
  append(name: string, value: string | Blob, fileName?: string): void;
  delete(name: string): void;
  get(name: string): string | File | null;
  getAll(name: string): (string | File)[];
  has(name: string): boolean;
  set(name: string, value: string | Blob, fileName?: string): void;
}
type FormDataEntryValue = string | File;
declare var FormData: { readonly prototype: FormData; new (): FormData };

interface Blob {
  readonly size: number;
  readonly type: string;
  arrayBuffer(): Promise<ArrayBuffer>;
  slice(start?: number, end?: number, contentType?: string): Blob;
  stream(): ReadableStream<Uint8Array>;
  text(): Promise<string>;
}
declare var Blob: {
  readonly prototype: Blob;
  new (parts?: (string | ArrayBuffer | ArrayBufferView | Blob)[], options?: { type?: string }): Blob;
};

interface File extends Blob {
  readonly lastModified: number;
  readonly name: string;
}
declare var File: {
  readonly prototype: File;
  new (parts: (string | ArrayBuffer | ArrayBufferView | Blob)[], name: string, options?: { type?: string }): File;
};

interface ReadableStream<T = any> extends AsyncIterable<T> {
  readonly locked: boolean;
  cancel(reason?: any): Promise<void>;
  getReader(): {
    read(): Promise<{ done: false; value: T } | { done: true; value?: undefined }>;
    releaseLock(): void;
    cancel(reason?: any): Promise<void>;
  };
  pipeThrough<U>(transform: { readable: ReadableStream<U>; writable: any }): ReadableStream<U>;
  tee(): [ReadableStream<T>, ReadableStream<T>];
}
declare var ReadableStream: {
  readonly prototype: ReadableStream;
  new <T = any>(source?: any, strategy?: any): ReadableStream<T>;
};

interface TextEncoder {
  readonly encoding: string;
  encode(text?: string): Uint8Array<ArrayBuffer>;
}
declare var TextEncoder: { readonly prototype: TextEncoder; new (): TextEncoder };

interface TextDecoder {
  readonly encoding: string;
  decode(bytes?: ArrayBuffer | ArrayBufferView, options?: { stream?: boolean }): string;
}
declare var TextDecoder: {
  readonly prototype: TextDecoder;
  new (encoding?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder;
};

interface ErrorConstructor {
  captureStackTrace(target: object, without?: Function): void;
  stackTraceLimit: number;
}

type BufferSource = ArrayBuffer | ArrayBufferView<ArrayBuffer>;

interface CryptoKey {
  readonly algorithm: { readonly name: string };
  readonly extractable: boolean;
  readonly type: "private" | "public" | "secret";
  readonly usages: string[];
}
declare var CryptoKey: { readonly prototype: CryptoKey; new (): CryptoKey };

interface JsonWebKey {
  alg?: string;
  crv?: string;
  d?: string;
  dp?: string;
  dq?: string;
  e?: string;
  ext?: boolean;
  k?: string;
  key_ops?: string[];
  kty?: string;
  n?: string;
  oth?: { d?: string; r?: string; t?: string }[];
  p?: string;
  q?: string;
  qi?: string;
  use?: string;
  x?: string;
  y?: string;
}

interface Crypto {
  getRandomValues<T extends ArrayBufferView>(array: T): T;
  randomUUID(): string;
  readonly subtle: any;
}
declare var crypto: Crypto;

interface Performance {
  readonly timeOrigin: number;
  now(): number;
}
declare var performance: Performance;

interface Timer {
  ref(): this;
  unref(): this;
  hasRef(): boolean;
  refresh(): this;
  [Symbol.toPrimitive](): number;
}
declare function setTimeout(callback: (...args: any[]) => void, milliseconds?: number, ...args: any[]): Timer;
declare function setInterval(callback: (...args: any[]) => void, milliseconds?: number, ...args: any[]): Timer;
declare function setImmediate(callback: (...args: any[]) => void, ...args: any[]): Timer;
declare function clearTimeout(timer: Timer | number | undefined): void;
declare function clearInterval(timer: Timer | number | undefined): void;
declare function clearImmediate(timer: Timer | undefined): void;
declare function queueMicrotask(callback: () => void): void;
declare function structuredClone<T>(value: T, options?: { transfer?: any[] }): T;
declare function atob(base64: string): string;
declare function btoa(binary: string): string;

/** Becomes log lines of the call that prints them. */
interface Console {
  assert(condition?: boolean, ...data: any[]): void;
  debug(...data: any[]): void;
  dir(item?: any, options?: any): void;
  error(...data: any[]): void;
  info(...data: any[]): void;
  log(...data: any[]): void;
  table(data?: any, columns?: string[]): void;
  time(label?: string): void;
  timeEnd(label?: string): void;
  trace(...data: any[]): void;
  warn(...data: any[]): void;
}
declare var console: Console;

/** `process.env` holds nothing of the host: only what the server's entry sets, and where its folders are. */
declare var process: {
  readonly env: Record<string, string | undefined>;
  readonly platform: string;
  readonly version: string;
  readonly versions: Readonly<Record<string, string>>;
  hrtime: { (time?: [number, number]): [number, number]; bigint(): bigint };
  memoryUsage(): Record<"rss" | "heapTotal" | "heapUsed" | "external" | "arrayBuffers", number>;
  nextTick(callback: (...args: any[]) => void, ...args: any[]): void;
  uptime(): number;
};

type BufferEncoding =
  | "ascii"
  | "base64"
  | "base64url"
  | "binary"
  | "hex"
  | "latin1"
  | "ucs2"
  | "ucs-2"
  | "utf8"
  | "utf-8"
  | "utf16le"
  | "utf-16le";

interface Buffer<Memory extends ArrayBufferLike = ArrayBuffer> extends Uint8Array<Memory> {
  compare(other: Uint8Array): -1 | 0 | 1;
  copy(target: Uint8Array, targetStart?: number, start?: number, end?: number): number;
  equals(other: Uint8Array): boolean;
  readDoubleBE(offset?: number): number;
  readDoubleLE(offset?: number): number;
  readFloatBE(offset?: number): number;
  readFloatLE(offset?: number): number;
  readInt8(offset?: number): number;
  readInt16BE(offset?: number): number;
  readInt16LE(offset?: number): number;
  readInt32BE(offset?: number): number;
  readInt32LE(offset?: number): number;
  readUInt8(offset?: number): number;
  readUInt16BE(offset?: number): number;
  readUInt16LE(offset?: number): number;
  readUInt32BE(offset?: number): number;
  readUInt32LE(offset?: number): number;
  slice(start?: number, end?: number): Buffer<Memory>;
  subarray(start?: number, end?: number): Buffer<Memory>;
  toString(encoding?: BufferEncoding, start?: number, end?: number): string;
  write(text: string, offset?: number, length?: number, encoding?: BufferEncoding): number;
  writeInt8(value: number, offset?: number): number;
  writeInt16BE(value: number, offset?: number): number;
  writeInt16LE(value: number, offset?: number): number;
  writeInt32BE(value: number, offset?: number): number;
  writeInt32LE(value: number, offset?: number): number;
  writeUInt8(value: number, offset?: number): number;
  writeUInt16BE(value: number, offset?: number): number;
  writeUInt16LE(value: number, offset?: number): number;
  writeUInt32BE(value: number, offset?: number): number;
  writeUInt32LE(value: number, offset?: number): number;
}
declare var Buffer: {
  alloc(size: number, fill?: string | number | Uint8Array, encoding?: BufferEncoding): Buffer;
  allocUnsafe(size: number): Buffer;
  byteLength(content: string | ArrayBuffer | ArrayBufferView, encoding?: BufferEncoding): number;
  compare(left: Uint8Array, right: Uint8Array): -1 | 0 | 1;
  concat(list: readonly Uint8Array[], totalLength?: number): Buffer;
  from(text: string, encoding?: BufferEncoding): Buffer;
  from(bytes: ArrayLike<number> | ArrayBufferLike, byteOffset?: number, length?: number): Buffer;
  isBuffer(value: any): value is Buffer;
  isEncoding(encoding: string): encoding is BufferEncoding;
};

// Node's modules that only compute. Those without types here can be used all the same.

declare module "node:buffer" {
  export import Buffer = globalThis.Buffer;
  export import Blob = globalThis.Blob;
  export import File = globalThis.File;
  export import atob = globalThis.atob;
  export import btoa = globalThis.btoa;
}

declare module "node:crypto" {
  type Bytes = string | ArrayBufferView;
  interface Hash {
    copy(): Hash;
    update(data: Bytes, inputEncoding?: BufferEncoding): Hash;
    digest(): Buffer;
    digest(encoding: BufferEncoding): string;
  }
  interface Hmac {
    update(data: Bytes, inputEncoding?: BufferEncoding): Hmac;
    digest(): Buffer;
    digest(encoding: BufferEncoding): string;
  }
  export function createHash(algorithm: string, options?: { outputLength?: number }): Hash;
  export function createHmac(algorithm: string, key: any): Hmac;
  export function getHashes(): string[];
  export function pbkdf2Sync(
    password: Bytes,
    salt: Bytes,
    iterations: number,
    keyLength: number,
    digest: string,
  ): Buffer;
  export function randomBytes(size: number): Buffer;
  export function randomInt(max: number): number;
  export function randomInt(min: number, max: number): number;
  export function randomUUID(): string;
  export function scryptSync(password: Bytes, salt: Bytes, keyLength: number, options?: any): Buffer;
  export function timingSafeEqual(left: ArrayBufferView, right: ArrayBufferView): boolean;
  export const createCipheriv: any;
  export const createDecipheriv: any;
  export const createPrivateKey: any;
  export const createPublicKey: any;
  export const createSecretKey: any;
  export const createSign: any;
  export const createVerify: any;
  export const generateKeyPairSync: any;
  export const hkdfSync: any;
  export const sign: any;
  export const verify: any;
  export const webcrypto: Crypto;
}

/** Its scratch folder, `os.tmpdir()`, and the folders that the server is given: `context.folders`. */
declare module "node:fs/promises" {
  type Path = string | URL | Uint8Array;
  type Encoding = BufferEncoding | { encoding: BufferEncoding; signal?: AbortSignal };
  type Data = string | ArrayBufferView | Iterable<string | ArrayBufferView> | AsyncIterable<string | ArrayBufferView>;
  export interface Stats {
    readonly size: number;
    readonly mode: number;
    readonly mtimeMs: number;
    readonly ctimeMs: number;
    readonly birthtimeMs: number;
    readonly mtime: Date;
    readonly ctime: Date;
    readonly birthtime: Date;
    isFile(): boolean;
    isDirectory(): boolean;
    isSymbolicLink(): boolean;
  }
  export interface Dirent {
    readonly name: string;
    readonly parentPath: string;
    isFile(): boolean;
    isDirectory(): boolean;
    isSymbolicLink(): boolean;
  }
  export interface FileHandle {
    read(
      buffer: Uint8Array,
      offset?: number,
      length?: number,
      position?: number | null,
    ): Promise<{ bytesRead: number; buffer: Uint8Array }>;
    readFile(encoding: Encoding): Promise<string>;
    readFile(): Promise<Buffer>;
    readLines(options?: { encoding?: BufferEncoding }): AsyncIterable<string>;
    write(data: string | Uint8Array, position?: number | null): Promise<{ bytesWritten: number }>;
    writeFile(data: Data): Promise<void>;
    stat(): Promise<Stats>;
    truncate(length?: number): Promise<void>;
    sync(): Promise<void>;
    close(): Promise<void>;
  }
  export function access(path: Path, mode?: number): Promise<void>;
  export function appendFile(path: Path, data: string | Uint8Array, encoding?: Encoding): Promise<void>;
  export function copyFile(from: Path, to: Path, mode?: number): Promise<void>;
  export function cp(from: Path, to: Path, options?: { recursive?: boolean; force?: boolean }): Promise<void>;
  export function lstat(path: Path): Promise<Stats>;
  export function mkdir(path: Path, options?: { recursive?: boolean; mode?: number }): Promise<string | undefined>;
  export function mkdtemp(prefix: string): Promise<string>;
  export function open(path: Path, flags?: string | number, mode?: number): Promise<FileHandle>;
  export function opendir(path: Path): Promise<AsyncIterable<Dirent> & { close(): Promise<void> }>;
  export function readdir(path: Path, options: { withFileTypes: true; recursive?: boolean }): Promise<Dirent[]>;
  export function readdir(path: Path, options?: { recursive?: boolean }): Promise<string[]>;
  export function readFile(path: Path | FileHandle, encoding: Encoding): Promise<string>;
  export function readFile(path: Path | FileHandle, options?: { signal?: AbortSignal }): Promise<Buffer>;
  export function readlink(path: Path): Promise<string>;
  export function realpath(path: Path): Promise<string>;
  export function rename(from: Path, to: Path): Promise<void>;
  export function rm(path: Path, options?: { recursive?: boolean; force?: boolean }): Promise<void>;
  export function rmdir(path: Path): Promise<void>;
  export function stat(path: Path): Promise<Stats>;
  export function truncate(path: Path, length?: number): Promise<void>;
  export function unlink(path: Path): Promise<void>;
  export function utimes(path: Path, accessed: number | Date, changed: number | Date): Promise<void>;
  export function writeFile(
    path: Path | FileHandle,
    data: Data,
    options?: BufferEncoding | { encoding?: BufferEncoding; flag?: string; mode?: number; signal?: AbortSignal },
  ): Promise<void>;
}

declare module "node:fs" {
  import type { Dirent, Stats } from "node:fs/promises";
  export type { Dirent, Stats } from "node:fs/promises";
  export * as promises from "node:fs/promises";
  type Path = string | URL | Uint8Array;
  type Encoding = BufferEncoding | { encoding: BufferEncoding };
  export const constants: Readonly<Record<string, number>>;
  export function appendFileSync(path: Path, data: string | Uint8Array): void;
  export function copyFileSync(from: Path, to: Path, mode?: number): void;
  export function existsSync(path: Path): boolean;
  export function lstatSync(path: Path): Stats;
  export function mkdirSync(path: Path, options?: { recursive?: boolean; mode?: number }): string | undefined;
  export function mkdtempSync(prefix: string): string;
  export function readdirSync(path: Path, options: { withFileTypes: true; recursive?: boolean }): Dirent[];
  export function readdirSync(path: Path, options?: { recursive?: boolean }): string[];
  export function readFileSync(path: Path, encoding: Encoding): string;
  export function readFileSync(path: Path): Buffer;
  export function realpathSync(path: Path): string;
  export function renameSync(from: Path, to: Path): void;
  export function rmSync(path: Path, options?: { recursive?: boolean; force?: boolean }): void;
  export function statSync(path: Path): Stats;
  export function unlinkSync(path: Path): void;
  export function writeFileSync(
    path: Path,
    data: string | ArrayBufferView,
    options?: { flag?: string; mode?: number },
  ): void;
  export function createReadStream(path: Path, options?: any): any;
  export function createWriteStream(path: Path, options?: any): any;
  export function watch(path: Path, ...more: any[]): any;
}

declare module "node:path" {
  interface ParsedPath {
    root: string;
    dir: string;
    base: string;
    ext: string;
    name: string;
  }
  export function basename(path: string, suffix?: string): string;
  export function dirname(path: string): string;
  export function extname(path: string): string;
  export function format(path: Partial<ParsedPath>): string;
  export function isAbsolute(path: string): boolean;
  export function join(...paths: string[]): string;
  export function normalize(path: string): string;
  export function parse(path: string): ParsedPath;
  export function relative(from: string, to: string): string;
  export function resolve(...paths: string[]): string;
  export const sep: string;
  export const delimiter: string;
  export const posix: typeof import("node:path");
  export const win32: typeof import("node:path");
}

declare module "node:timers/promises" {
  export function setTimeout<T = void>(
    milliseconds?: number,
    value?: T,
    options?: { signal?: AbortSignal },
  ): Promise<T>;
  export function setImmediate<T = void>(value?: T, options?: { signal?: AbortSignal }): Promise<T>;
  export function setInterval<T = void>(
    milliseconds?: number,
    value?: T,
    options?: { signal?: AbortSignal },
  ): AsyncIterable<T>;
}

declare module "node:url" {
  export import URL = globalThis.URL;
  export import URLSearchParams = globalThis.URLSearchParams;
  export function domainToASCII(domain: string): string;
  export function domainToUnicode(domain: string): string;
  export function fileURLToPath(url: string | URL): string;
  export function pathToFileURL(path: string): URL;
}

declare module "node:util" {
  export function format(format?: any, ...values: any[]): string;
  export function inspect(value: any, options?: any): string;
  export function isDeepStrictEqual(left: unknown, right: unknown): boolean;
  export function stripVTControlCharacters(text: string): string;
  export const promisify: any;
  export const types: any;
  export import TextEncoder = globalThis.TextEncoder;
  export import TextDecoder = globalThis.TextDecoder;
}

declare module "node:zlib" {
  type Compressible = string | ArrayBuffer | ArrayBufferView;
  export function brotliCompressSync(data: Compressible, options?: any): Buffer;
  export function brotliDecompressSync(data: Compressible, options?: any): Buffer;
  export function deflateSync(data: Compressible, options?: any): Buffer;
  export function deflateRawSync(data: Compressible, options?: any): Buffer;
  export function gunzipSync(data: Compressible, options?: any): Buffer;
  export function gzipSync(data: Compressible, options?: any): Buffer;
  export function inflateSync(data: Compressible, options?: any): Buffer;
  export function inflateRawSync(data: Compressible, options?: any): Buffer;
  export const constants: any;
}

declare module "node:assert";
declare module "node:assert/strict";
declare module "node:async_hooks";
declare module "node:diagnostics_channel";
declare module "node:events";
declare module "node:path/posix";
declare module "node:path/win32";
declare module "node:perf_hooks";
declare module "node:punycode";
declare module "node:querystring";
declare module "node:stream";
declare module "node:stream/consumers";
declare module "node:stream/promises";
declare module "node:stream/web";
declare module "node:string_decoder";
declare module "node:timers";
declare module "node:util/types";

// An import of a file beside the definition gives its text …
declare module "*.css" {
  const text: string;
  export default text;
}
declare module "*.csv" {
  const text: string;
  export default text;
}
declare module "*.graphql" {
  const text: string;
  export default text;
}
declare module "*.hbs" {
  const text: string;
  export default text;
}
declare module "*.htm" {
  const text: string;
  export default text;
}
declare module "*.html" {
  const text: string;
  export default text;
}
declare module "*.ini" {
  const text: string;
  export default text;
}
declare module "*.jsonl" {
  const text: string;
  export default text;
}
declare module "*.md" {
  const text: string;
  export default text;
}
declare module "*.sql" {
  const text: string;
  export default text;
}
declare module "*.svg" {
  const text: string;
  export default text;
}
declare module "*.toml" {
  const text: string;
  export default text;
}
declare module "*.tsv" {
  const text: string;
  export default text;
}
declare module "*.txt" {
  const text: string;
  export default text;
}
declare module "*.xml" {
  const text: string;
  export default text;
}
declare module "*.xsd" {
  const text: string;
  export default text;
}
declare module "*.yaml" {
  const text: string;
  export default text;
}
declare module "*.yml" {
  const text: string;
  export default text;
}

// … or its bytes.
declare module "*.bin" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.bmp" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.db" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.docx" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.gif" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.gz" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.ico" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.jpeg" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.jpg" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.mp3" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.otf" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.parquet" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.pdf" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.png" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.sqlite" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.ttf" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.wasm" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.wav" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.webp" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.woff" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.woff2" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.xlsx" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "*.zip" {
  const bytes: Uint8Array;
  export default bytes;
}
