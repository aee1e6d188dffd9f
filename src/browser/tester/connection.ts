import {
  Client,
  LOG_LEVEL_META_KEY,
  ProtocolError,
  StreamableHTTPClientTransport,
  type ElicitResult,
  type Prompt,
  type Resource,
  type ResourceTemplateType,
  type Tool,
} from "@modelcontextprotocol/client";
import { CfworkerValidator } from "./form/validation.ts";
import type { Runner } from "./run.ts";
import type { Traffic } from "./traffic.ts";

export type Era = "auto" | "modern" | "legacy";

export const REVISIONS: Readonly<Record<Exclude<Era, "auto">, string>> = {
  modern: "2026-07-28",
  legacy: "2025-11-25",
};

export interface Offers {
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

export interface ConnectOptions {
  readonly endpoint: string;
  readonly era: Era;
  readonly traffic: Traffic;
  readonly runner: Runner;
  readonly onListChanged: () => void;
}

// The specification's code for a person's refusal to sample.
const REFUSED_BY_PERSON = -1;

export async function connect(options: ConnectOptions): Promise<Connection> {
  const { era, traffic, runner } = options;
  traffic.newConnection();
  const changed = { onChanged: options.onListChanged, autoRefresh: false };
  const client = new Client(
    { name: "berth-tester", title: "Berth's tester", version: "1.0.0" },
    {
      capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
      versionNegotiation: { mode: era === "modern" ? { pin: REVISIONS.modern } : era },
      jsonSchemaValidator: new CfworkerValidator(),
      listChanged: { tools: changed, resources: changed, prompts: changed },
    },
  );
  answerQuestions(client, runner);
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
function answerQuestions(client: Client, runner: Runner): void {
  client.setNotificationHandler("notifications/message", ({ params }) => runner.log(params));
  client.setRequestHandler("roots/list", () => ({ roots: [] }));
  client.setRequestHandler("elicitation/create", async ({ params }): Promise<ElicitResult> => {
    const answer = await runner.ask(
      params.mode === "url"
        ? { kind: "url", message: params.message, url: params.url }
        : { kind: "form", message: params.message, schema: params.requestedSchema },
    );
    if (answer.action !== "accept") return answer;
    return { action: "accept", ...(answer.content && { content: answer.content as ElicitResult["content"] }) };
  });
  client.setRequestHandler("sampling/createMessage", async ({ params }) => {
    const { systemPrompt, messages, maxTokens } = params;
    const answer = await runner.ask({
      kind: "sampling",
      messages,
      maxTokens,
      ...(systemPrompt !== undefined && { systemPrompt }),
    });
    if (answer.action !== "accept") throw new ProtocolError(REFUSED_BY_PERSON, "The person refused to answer");
    return {
      role: "assistant",
      model: "a person at Berth's tester",
      stopReason: "endTurn",
      content: { type: "text", text: answer.text ?? "" },
    };
  });
}
