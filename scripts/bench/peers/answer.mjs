import { serverInfo } from "./tools.mjs";

/** The answer to a `tools/call` of echo, in the bytes that the official SDK sends. @param {any} message */
export function answerTo(message) {
  return {
    result: {
      content: [{ type: "text", text: message.params.arguments.message }],
      resultType: "complete",
      _meta: { "io.modelcontextprotocol/serverInfo": serverInfo },
    },
    jsonrpc: "2.0",
    id: message.id,
  };
}
