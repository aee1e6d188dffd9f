import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

/**
 * A stand-in for a model behind OpenAI's Responses API: in each conversation it wants one call of a tool, and then says
 * what came of it. The agent before it is a real one.
 *
 * @returns {Promise<{ url: string, want(call: { namespace: string, name: string, arguments: object }): void, close(): void }>}
 */
export async function openModel() {
  let wanted;
  const answer = async (request, response) => {
    if (request.method !== "POST" || !request.url.endsWith("/responses")) return response.writeHead(404).end();
    const { input } = JSON.parse(await text(request));
    const came = input.findLast(({ type }) => type === "function_call_output");
    const item = came
      ? { type: "message", role: "assistant", id: "said", content: [{ type: "output_text", text: said(came.output) }] }
      : { type: "function_call", id: "call", call_id: "call", ...wanted };
    const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const event of [
      { type: "response.created", response: { id: "response" } },
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: { id: "response", usage } },
    ]) {
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
    response.end();
  };
  const server = createServer((request, response) => void answer(request, response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}/v1`,
    want: (call) => (wanted = { ...call, arguments: JSON.stringify(call.arguments) }),
    close: () => server.close(),
  };
}

function said(output) {
  return typeof output === "string" ? output : JSON.stringify(output);
}
