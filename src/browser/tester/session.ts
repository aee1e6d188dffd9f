import {
  Client,
  type ElicitResult,
  LOG_LEVEL_META_KEY,
  type Prompt,
  ProtocolError,
  type Resource,
  type ResourceTemplateType,
  StreamableHTTPClientTransport,
  type Tool,
} from "@modelcontextprotocol/client";
import { APP_MIME_TYPE } from "../../contract/apps.ts";
import { EXTENSION_UI } from "../../contract/extensions.ts";
import { explain, type Explained } from "./explain.ts";
import { CfworkerValidator } from "./form/validation.ts";
import { type Answer, type Question, Runners } from "./run.ts";
import { Store } from "./store.ts";
import { Traffic } from "./traffic.ts";

export type State =
  | { readonly phase: "connecting" }
  | { readonly phase: "connected"; readonly connection: Connection; readonly offers: Offers }
  | { readonly phase: "failed"; readonly error: Explained };

/** The tester's connection to its server, in the era that the person last chose. */
export class Session {
  readonly era = new Store<Era>("auto");
  readonly state = new Store<State>({ phase: "connecting" });
  readonly traffic = new Traffic();
  readonly runners = new Runners();
  readonly #endpoint: string;
  /** Tells which of several attempted connections counts. */
  #begun = 0;

  constructor(endpoint: string) {
    this.#endpoint = endpoint;
  }

  async open(era: Era): Promise<void> {
    const number = ++this.#begun;
    const old = this.state.value;
    this.era.set(era);
    this.runners.forget();
    this.state.set({ phase: "connecting" });
    // If closing fails, the server has forgotten the session, which closes it as well.
    if (old.phase === "connected") await old.connection.close().catch(() => {});
    let state: State;
    try {
      const { traffic, runners } = this;
      const onListChanged = () => void this.#list();
      const connection = await connect({ endpoint: this.#endpoint, era, traffic, runners, onListChanged });
      state = { phase: "connected", connection, offers: await connection.list() };
    } catch (error) {
      state = { phase: "failed", error: explain(error) };
    }
    if (number === this.#begun) this.state.set(state);
    else if (state.phase === "connected") await state.connection.close().catch(() => {});
  }

  /** Lists again after the server said that its offers have changed. */
  async #list(): Promise<void> {
    const state = this.state.value;
    if (state.phase !== "connected") return;
    try {
      const offers = await state.connection.list();
      if (this.state.value === state) this.state.set({ ...state, offers });
    } catch {
      // The lists stay as they are; the raw messages tell why.
    }
  }
}

export type Era = "auto" | "modern" | "legacy";

export const REVISIONS: Readonly<Record<Exclude<Era, "auto">, string>> = {
  modern: "2026-07-28",
  legacy: "2025-11-25",
};

interface Offers {
  readonly tools: readonly Tool[];
  readonly resources: readonly Resource[];
  readonly templates: readonly ResourceTemplateType[];
  readonly prompts: readonly Prompt[];
}

/** One connection of the official client, in the requested or detected era. */
export interface Connection {
  readonly client: Client;
  /** The negotiated revision. */
  readonly version: string;
  readonly server: string;
  readonly completes: boolean;
  /** Goes into each request's `params`: asks for log lines, in revisions where each request asks for them. */
  readonly meta: { readonly _meta?: Record<string, unknown> };
  list(): Promise<Offers>;
  close(): Promise<void>;
}

interface ConnectOptions {
  readonly endpoint: string;
  readonly era: Era;
  readonly traffic: Traffic;
  readonly runners: Runners;
  readonly onListChanged: () => void;
}

// The specification's code for a person's refusal to sample.
const REFUSED_BY_PERSON = -1;

async function connect(options: ConnectOptions): Promise<Connection> {
  const { era, traffic, runners } = options;
  traffic.newConnection();
  const changed = { onChanged: options.onListChanged, autoRefresh: false };
  const client = new Client(
    { name: "berth-tester", title: "Berth's tester", version: "1.0.0" },
    {
      capabilities: {
        elicitation: { form: {}, url: {} },
        sampling: {},
        roots: {},
        extensions: { [EXTENSION_UI]: { mimeTypes: [APP_MIME_TYPE] } },
      },
      versionNegotiation: { mode: era === "modern" ? { pin: REVISIONS.modern } : era },
      jsonSchemaValidator: new CfworkerValidator(),
      listChanged: { tools: changed, resources: changed, prompts: changed },
    },
  );
  answerQuestions(client, runners);
  const transport = new StreamableHTTPClientTransport(new URL(options.endpoint, location.href), {
    fetch: traffic.fetch,
  });
  await client.connect(transport);

  const capabilities = client.getServerCapabilities() ?? {};
  const isModern = client.getProtocolEra() === "modern";
  if (!isModern && capabilities.logging) await client.setLoggingLevel("debug");
  const server = client.getServerVersion();
  return {
    client,
    version: client.getNegotiatedProtocolVersion() ?? "",
    // The part after the plus is the release's long CID.
    server: server ? `${server.title ?? server.name} ${server.version.split("+")[0]}` : "",
    completes: capabilities.completions !== undefined,
    meta: isModern ? { _meta: { [LOG_LEVEL_META_KEY]: "debug" } } : {},
    async list() {
      const fresh = { cacheMode: "refresh" } as const;
      const [tools, resources, templates, prompts] = await Promise.all([
        capabilities.tools ? client.listTools({}, fresh) : undefined,
        capabilities.resources ? client.listResources({}, fresh) : undefined,
        capabilities.resources ? client.listResourceTemplates({}, fresh) : undefined,
        capabilities.prompts ? client.listPrompts({}, fresh) : undefined,
      ]);
      return {
        tools: tools?.tools ?? [],
        resources: resources?.resources ?? [],
        templates: templates?.resourceTemplates ?? [],
        prompts: prompts?.prompts ?? [],
      };
    },
    async close() {
      try {
        if (transport.sessionId !== undefined) await transport.terminateSession();
      } finally {
        await client.close();
      }
    },
  };
}

/** Requests of a legacy server and input requests of a modern one reach the same handlers. */
function answerQuestions(client: Client, { active }: Runners): void {
  const ask = (question: Question): Promise<Answer> =>
    active.value?.ask(question) ?? Promise.resolve({ action: "cancel" });
  client.setNotificationHandler("notifications/message", ({ params }) => active.value?.log(params));
  client.setRequestHandler("roots/list", () => ({ roots: [] }));
  client.setRequestHandler("elicitation/create", async ({ params }): Promise<ElicitResult> => {
    const answer = await ask(
      params.mode === "url"
        ? { kind: "url", message: params.message, url: params.url }
        : { kind: "form", message: params.message, schema: params.requestedSchema },
    );
    if (answer.action !== "accept") return answer;
    return { action: "accept", ...(answer.content && { content: answer.content as ElicitResult["content"] }) };
  });
  client.setRequestHandler("sampling/createMessage", async ({ params }) => {
    const { systemPrompt, messages, maxTokens } = params;
    const answer = await ask({
      kind: "sampling",
      messages,
      maxTokens,
      ...(systemPrompt !== undefined && { systemPrompt }),
    });
    if (answer.action !== "accept") throw new ProtocolError(REFUSED_BY_PERSON, "The user refused to answer");
    return {
      role: "assistant",
      model: "a user of Berth's tester",
      stopReason: "endTurn",
      content: { type: "text", text: answer.text ?? "" },
    };
  });
}
