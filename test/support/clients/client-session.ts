/**
 * Everything that a client does in one session, in terms that all library versions and revisions share. Tests drive
 * every client through it; the differences are in the file of each library.
 */
export interface ClientSession {
  readonly era: "legacy" | "modern";
  readonly version: string | undefined;
  readonly serverName: string | undefined;
  /** As the server announced them. */
  readonly capabilities: Readonly<Record<string, unknown>>;
  /** The session's id, where the transport has one. */
  readonly sessionId: string | undefined;
  readonly heard: Heard;
  /** Sets how the user answers questions from now on. */
  answerWith(answer: UserAnswer): void;

  tools(): Promise<string[]>;
  resources(): Promise<string[]>;
  templates(): Promise<string[]>;
  prompts(): Promise<string[]>;
  call(tool: string, args?: Record<string, unknown>, options?: CallOptions): Promise<Called>;
  /** The contents. */
  read(uri: string): Promise<readonly unknown[]>;
  /** The messages. */
  prompt(name: string, args?: Record<string, string>): Promise<readonly unknown[]>;
  complete(of: Completed, value: string, others?: Record<string, string>): Promise<string[]>;
  /** Resolves when the server has agreed; returns the function that ends the subscription. */
  subscribe(uri: string): Promise<() => Promise<void>>;
  /** Sets the level of the server's log lines, where the revision has a level for the session. */
  setLogLevel(level: "debug" | "warning"): Promise<void>;
  /** Ends the session as the transport prescribes, and the connection. */
  close(): Promise<void>;
}

export interface SessionOpener {
  /** The name in tests: "SDK 1.32 over HTTP+SSE". */
  readonly name: string;
  /** The revision that it must negotiate with a server that speaks all. */
  readonly version: string;
  /** The code of the error that a missing resource becomes. */
  readonly missingResource: number;
  open(url: string): Promise<ClientSession>;
}

/** The messages that the client received unasked. */
export interface Heard {
  /** URIs of resources whose content has changed. */
  readonly updated: string[];
  /** The list of tools after each change that was announced. */
  readonly toolLists: string[][];
  /** The server's questions to the user. */
  readonly questions: string[];
  /** Data of log lines. */
  readonly logged: unknown[];
}

export interface Called {
  readonly content: readonly { readonly type: string; readonly text?: string }[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
}

export interface CallOptions {
  readonly onprogress?: (event: { message?: string }) => void;
  readonly signal?: AbortSignal;
}

export type Completed = { prompt: string; argument: string } | { template: string; argument: string };

export type UserAnswer = { action: "accept"; content: Record<string, string> } | { action: "decline" };

export const CLIENT_INFO = { name: "berth-test", version: "1.0.0" };

export const CLIENT_CAPABILITIES = { elicitation: { form: {} }, sampling: {}, roots: {} };

/** The client's answers to a server's requests, whichever library passes them on. */
export class Peer {
  readonly heard: Heard = { updated: [], toolLists: [], questions: [], logged: [] };
  answer: UserAnswer = { action: "decline" };

  readonly elicit = ({ message }: { message: string }): UserAnswer => {
    this.heard.questions.push(message);
    return this.answer;
  };

  readonly sample = ({ messages }: { messages: readonly { content: unknown }[] }) => {
    const asked = (messages[0]?.content as { text?: string } | undefined)?.text;
    return { role: "assistant" as const, model: "test", content: { type: "text" as const, text: `${asked}: roses` } };
  };

  readonly roots = () => ({ roots: [{ uri: "file:///home/berth" }] });

  readonly toolsChanged = (error: unknown, tools: readonly { name: string }[] | null): void => {
    // The session may be closed meanwhile.
    if (/closed|abort|not connected/i.test(String(error))) return;
    if (error || !tools) throw new Error(`the list could not be read again: ${String(error)}`, { cause: error });
    this.heard.toolLists.push(tools.map(({ name }) => name));
  };
}

/** `ref` and `argument` of `completion/complete`. */
export function completionParams(of: Completed, value: string, others: Record<string, string> = {}) {
  const ref =
    "prompt" in of
      ? { type: "ref/prompt" as const, name: of.prompt }
      : { type: "ref/resource" as const, uri: of.template };
  const context = Object.keys(others).length > 0 ? { context: { arguments: others } } : {};
  return { ref, argument: { name: of.argument, value }, ...context };
}

/** A `fetch` for a transport of sessions, which opens the stream for server messages without waiting for it. */
export function observedFetch() {
  let opened!: () => void;
  const listening = new Promise<void>((resolve) => (opened = resolve));
  return {
    listening,
    fetch: async (input: string | URL, init?: RequestInit): Promise<Response> => {
      const response = await fetch(input, init);
      if (init?.method === "GET") opened();
      return response;
    },
  };
}
