import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

/**
 * A stand-in for a model behind Anthropic's Messages API: it wants one call of a tool, and then says what came of it. The
 * client before it is a real one.
 *
 * @returns {Promise<{ url: string, want(call: { name: string, input: object }): void, close(): void }>}
 */
export async function openMessages() {
  let wanted;
  const answer = async (request, response) => {
    if (request.method !== "POST" || !/\/messages(?:\?|$)/.test(request.url)) return response.writeHead(404).end();
    const { messages, tools = [], stream = false, model } = JSON.parse(await text(request));
    const block = next(wanted, messages, tools);
    const message = { id: "msg_1", type: "message", role: "assistant", model, stop_sequence: null };
    const usage = { input_tokens: 1, output_tokens: 1 };
    const stop_reason = block.type === "tool_use" ? "tool_use" : "end_turn";
    if (!stream) {
      response.writeHead(200, { "Content-Type": "application/json" });
      return response.end(JSON.stringify({ ...message, content: [block], stop_reason, usage }));
    }
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const event of [
      { type: "message_start", message: { ...message, content: [], stop_reason: null, usage } },
      { type: "content_block_start", index: 0, content_block: begun(block) },
      { type: "content_block_delta", index: 0, delta: deltaOf(block) },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
      { type: "message_stop" },
    ]) {
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
    return response.end();
  };
  const server = createServer((request, response) => void answer(request, response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    want: (call) => (wanted = call),
    close: () => server.close(),
  };
}

/** Clients with many tools have a model look for those that it wants. */
function next(wanted, messages, tools) {
  const blocks = messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  const resultOf = (id) => blocks.find((each) => each.type === "tool_result" && each.tool_use_id === id);
  const came = resultOf(CALL);
  if (came) return { type: "text", text: said(came.content) };
  const has = (tool) => tools.some(({ name }) => name === tool);
  if (has(wanted.name)) return { type: "tool_use", id: CALL, ...wanted };
  const found = resultOf(SEARCH);
  if (has("ToolSearch") && !found)
    return { type: "tool_use", id: SEARCH, name: "ToolSearch", input: { query: `select:${wanted.name}` } };
  return { type: "text", text: `There is no tool ${wanted.name}. ${found ? said(found.content) : ""}` };
}

const CALL = "toolu_call";
const SEARCH = "toolu_search";

function begun(block) {
  return block.type === "text" ? { ...block, text: "" } : { ...block, input: {} };
}

function deltaOf(block) {
  return block.type === "text"
    ? { type: "text_delta", text: block.text }
    : { type: "input_json_delta", partial_json: JSON.stringify(block.input) };
}

function said(content) {
  return typeof content === "string" ? content : content.map(({ text: each = "" }) => each).join("\n");
}
