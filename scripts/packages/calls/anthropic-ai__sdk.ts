import Anthropic from "@anthropic-ai/sdk";

/** A message that a function of the definition's own answers. */
export async function message(): Promise<{ text: string; path: string }> {
  let path = "";
  const client = new Anthropic({
    apiKey: "none",
    fetch: async (url) => {
      path = new URL(String(url)).pathname;
      const content = [{ type: "text", text: "Hello", citations: null }];
      return new Response(JSON.stringify({ id: "1", type: "message", role: "assistant", content }), {
        headers: { "content-type": "application/json" },
      });
    },
  });
  const { content } = await client.messages.create({
    model: "any",
    max_tokens: 16,
    messages: [{ role: "user", content: "Hello" }],
  });
  const [first] = content;
  return { text: first?.type === "text" ? first.text : "", path };
}
