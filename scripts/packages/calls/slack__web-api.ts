import { ErrorCode, WebClient } from "@slack/web-api";

/** Sends a message to a function of the definition's own. */
export async function message(): Promise<{ ok: boolean; url: string; code: string }> {
  let url = "";
  const client = new WebClient("xoxb-none", {
    fetch: async (input) => {
      url = String(input);
      return new Response('{"ok":true,"ts":"1"}', { headers: { "content-type": "application/json" } });
    },
  });
  const { ok } = await client.chat.postMessage({ channel: "C1", text: "Hello" });
  return { ok, url, code: ErrorCode.PlatformError };
}
