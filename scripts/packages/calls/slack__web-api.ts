import { WebClient } from "@slack/web-api";

/** Sends a message. */
export async function message(at: string): Promise<{ ok: boolean; text?: string }> {
  const client = new WebClient("xoxb-none", { slackApiUrl: `http://${at}/api/` });
  const { ok, message } = await client.chat.postMessage({ channel: "C1", text: "Hello" });
  return { ok, ...(message?.text !== undefined && { text: message.text }) };
}
