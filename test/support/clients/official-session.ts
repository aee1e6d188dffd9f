import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { CLIENT_CAPABILITIES, CLIENT_INFO, completionParams, observedFetch, Peer } from "./client-session.ts";
import type { SessionOpener } from "./client-session.ts";

/** `@modelcontextprotocol/client` 2.4 over Streamable HTTP, in the era that it is told to negotiate. */
export function officialSession(mode: "legacy" | "modern" | "auto"): SessionOpener {
  const version = mode === "legacy" ? "2025-11-25" : "2026-07-28";
  return {
    name: `the official client (${mode})`,
    version,
    // In the legacy era too, although that has -32002.
    missingResource: -32602,
    async open(url) {
      const peer = new Peer();
      const client = new Client(CLIENT_INFO, {
        capabilities: CLIENT_CAPABILITIES,
        versionNegotiation: { mode: mode === "modern" ? { pin: version } : mode },
        listChanged: { tools: { onChanged: peer.toolsChanged, debounceMs: 0 } },
      });
      client.setRequestHandler("elicitation/create", ({ params }) => peer.elicit(params));
      client.setRequestHandler("sampling/createMessage", ({ params }) => peer.sample(params as never));
      client.setRequestHandler("roots/list", peer.roots);
      client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
        peer.heard.updated.push(params.uri);
      });
      client.setNotificationHandler("notifications/message", ({ params }) => void peer.heard.logged.push(params.data));
      const observed = observedFetch();
      const transport = new StreamableHTTPClientTransport(new URL(url), { fetch: observed.fetch });
      await client.connect(transport);
      const era = client.getProtocolEra() === "modern" ? "modern" : "legacy";
      if (era === "legacy") await observed.listening;
      let logLevel = {};
      return {
        era,
        version: client.getNegotiatedProtocolVersion(),
        serverName: client.getServerVersion()?.name,
        capabilities: { ...client.getServerCapabilities() },
        sessionId: transport.sessionId,
        heard: peer.heard,
        answerWith: (answer) => void (peer.answer = answer),
        tools: async () => (await client.listTools()).tools.map(({ name }) => name),
        resources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
        templates: async () => (await client.listResourceTemplates()).resourceTemplates.map((each) => each.uriTemplate),
        prompts: async () => (await client.listPrompts()).prompts.map(({ name }) => name),
        call: (name, args = {}, options = {}) => client.callTool({ name, arguments: args, ...logLevel }, options),
        read: async (uri) => (await client.readResource({ uri })).contents,
        prompt: async (name, args = {}) => (await client.getPrompt({ name, arguments: args })).messages,
        complete: async (of, value, others) =>
          (await client.complete(completionParams(of, value, others))).completion.values,
        async subscribe(uri) {
          if (era === "legacy") {
            await client.subscribeResource({ uri });
            return async () => void (await client.unsubscribeResource({ uri }));
          }
          const subscription = await client.listen({ resourceSubscriptions: [uri] });
          return () => subscription.close();
        },
        async setLogLevel(level) {
          if (era === "legacy") await client.setLoggingLevel(level);
          else logLevel = { _meta: { "io.modelcontextprotocol/logLevel": level } };
        },
        async close() {
          if (transport.sessionId !== undefined) await transport.terminateSession();
          await client.close();
        },
      };
    },
  };
}
