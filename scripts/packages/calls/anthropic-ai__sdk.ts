import Anthropic from "@anthropic-ai/sdk";

/** Asks for a message. */
export async function message(at: string): Promise<string> {
  const client = new Anthropic({ apiKey: "none", baseURL: `http://${at}` });
  const { content } = await client.messages.create({
    model: "any",
    max_tokens: 16,
    messages: [{ role: "user", content: "Hello" }],
  });
  const [first] = content;
  return first?.type === "text" ? first.text : "";
}
