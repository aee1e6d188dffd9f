import OpenAI from "openai";

/** A completion that a function of the definition's own answers. */
export async function completion(): Promise<{ text: string | null | undefined; path: string }> {
  let path = "";
  const client = new OpenAI({
    apiKey: "none",
    fetch: async (url) => {
      path = new URL(String(url)).pathname;
      const choices = [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "Ahoy" } }];
      return new Response(JSON.stringify({ id: "1", object: "chat.completion", choices }), {
        headers: { "content-type": "application/json" },
      });
    },
  });
  const { choices } = await client.chat.completions.create({
    model: "any",
    messages: [{ role: "user", content: "Say hello" }],
  });
  return { text: choices[0]?.message.content, path };
}
